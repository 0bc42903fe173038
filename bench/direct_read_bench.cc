// This measures reads of a peer's private memory where it lies (process_vm_readv), and beside them copies of the
// reader's own memory: direct_read_bench [ROUNDS]. The owner is another process, on the next core; nobody writes
// meanwhile.
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr std::size_t kLargest = 16 << 20;
constexpr std::size_t kPiece = 256 << 10;  // as large as the messages of shm are
constexpr std::size_t kPage = 4096;

void pin(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  static_cast<void>(sched_setaffinity(0, sizeof cores, &cores));  // as it comes where not permitted
}

char* allocate(int advice) {
  void* const memory = mmap(nullptr, kLargest, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  static_cast<void>(madvise(memory, kLargest, advice));
  std::memset(memory, 1, kLargest);
  return static_cast<char*>(memory);
}

template <class Work>
double seconds(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

bool read(pid_t owner, const char* from, char* to, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kPiece) {
    const std::size_t piece = std::min(kPiece, bytes - at);
    const iovec here{to + at, piece}, there{const_cast<char*>(from) + at, piece};
    if (process_vm_readv(owner, &here, 1, &there, 1, 0) != static_cast<ssize_t>(piece)) return false;
  }
  return true;
}

/// A table for memory in pages as `advice` asks for. False: the kernel does not let this process read.
bool measure(const char* pages, int advice, int rounds) {
  char* const to = allocate(advice);
  char* const own = allocate(advice);  // the child's copy lies at the same address
  const pid_t owner = fork();
  if (owner == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(1);
    std::memset(own, 2, kLargest);  // pages of its own
    for (;;) pause();
  }
  pin(0);
  bool good = true;
  while (good && to[kLargest - 1] != 2) good = read(owner, own, to, kLargest);  // the child has them all then
  for (const std::size_t bytes : {kPiece / 4, kPiece, 4 * kPiece, kLargest}) {
    std::vector<double> reads, copies;
    for (int round = 0; good && round < rounds; ++round) {
      reads.push_back(seconds([&] { good = read(owner, own, to, bytes); }));
      copies.push_back(seconds([&] { std::memcpy(to, own, bytes); }));
    }
    if (!good) break;
    const double read_time = median(reads), copy_time = median(copies);
    std::printf("%8zu KiB  %-12s  %9.1f us  %5.1f GB/s  %9.1f us  %5.1f GB/s  %7.0f ns\n", bytes >> 10, pages,
                read_time * 1e6, static_cast<double>(bytes) / read_time / 1e9, copy_time * 1e6,
                static_cast<double>(bytes) / copy_time / 1e9,
                (read_time - copy_time) * 1e9 / static_cast<double>(bytes / kPage));
  }
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  munmap(to, kLargest);
  munmap(own, kLargest);
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 31;
  std::puts("  message  pages         a peer's memory read       own memory copied       more, a 4 KiB page");
  for (const auto& [pages, advice] : {std::pair{"4 KiB", MADV_NOHUGEPAGE}, std::pair{"huge, if any", MADV_HUGEPAGE}}) {
    if (measure(pages, advice, rounds)) continue;
    std::perror("process_vm_readv");
    return 1;
  }
  return 0;
}
