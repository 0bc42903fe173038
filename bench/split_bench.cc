// Small all-reduces in the parts of a communicator, whose ranks are processes: do the parts leave each other the cores?
//
//   split_bench [RANKS] [PART] [CALLS] [WORKING]    8, 2, 20000 and all unless given; WORKING: parts that call, the
//   others' ranks sleep
#include <sys/mman.h>
#include <sys/wait.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

namespace {

constexpr int kMostRanks = 256;

struct Options {
  int ranks = 8, part = 2, calls = 20000, working = kMostRanks;
};

/// Memory of all processes.
struct Shared {
  tuttiUniqueId id;
  std::atomic<bool> ready;  // release after `id`, pairs with the acquire in run_rank()
  double microseconds[kMostRanks];
};

void check(tuttiResult_t code) {
  if (code == tuttiSuccess) return;
  std::fprintf(stderr, "%s: %s\n", tuttiGetErrorString(code), tuttiGetLastError(nullptr));
  _exit(1);
}

double microseconds_of(int calls, tuttiComm_t comm) {
  float value[2] = {1, 2};
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) check(tuttiAllReduce(value, value, 2, tuttiFloat32, tuttiMax, comm, nullptr));
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / calls;
}

void run_rank(const Options& options, int rank, Shared* shared) {
  if (rank == 0) {
    check(tuttiGetUniqueId(&shared->id));
    shared->ready.store(true, std::memory_order_release);
  }
  while (!shared->ready.load(std::memory_order_acquire)) usleep(100);
  tuttiComm_t whole = nullptr, part = nullptr;
  check(tuttiCommInitRank(&whole, options.ranks, shared->id, rank));
  check(tuttiCommSplit(whole, rank / options.part, rank, &part, nullptr));
  check(tuttiBarrier(whole, nullptr));
  if (rank / options.part < options.working) {
    microseconds_of(options.calls / 10 + 1, part);
    shared->microseconds[rank] = microseconds_of(options.calls, part);
  }
  check(tuttiBarrier(whole, nullptr));
  check(tuttiCommDestroy(part));
  check(tuttiCommDestroy(whole));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  int* const fields[] = {&options.ranks, &options.part, &options.calls, &options.working};
  bool valid = argc <= 5;
  for (int i = 1; i < argc && valid; ++i) valid = (*fields[i - 1] = std::atoi(argv[i])) >= 1;
  if (!valid || options.ranks > kMostRanks) {
    std::fprintf(stderr, "usage: %s [RANKS] [PART] [CALLS] [WORKING]\n", argv[0]);
    return 2;
  }
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  auto* const shared = new (memory) Shared{};
  for (int rank = 0; rank < options.ranks; ++rank) {
    if (fork() != 0) continue;
    run_rank(options, rank, shared);
    _exit(0);
  }
  bool failed = false;
  for (int status = 0; wait(&status) > 0;) failed = failed || status != 0;
  if (failed) return 1;
  std::vector<double> times;
  for (int rank = 0; rank < options.ranks; ++rank)
    if (rank / options.part < options.working) times.push_back(shared->microseconds[rank]);
  std::sort(times.begin(), times.end());
  std::printf("%d ranks in parts of %d, 8 bytes: median %.2f us, slowest rank %.2f us\n", options.ranks, options.part,
              times[times.size() / 2], times.back());
  return 0;
}
