// What a communicator of many ranks costs, by the C API: the time until the last rank's join has returned, until all
// have the sum of the first all_reduce of a float, until they have a second one, and until all have left; processor
// time of all processes, and memory of one.
//
//   join_bench RANKS PROCESSES [HOSTS]    HOSTS: how many the processes pretend to be on, 1 unless given
//
// The processes are forked first, so that starting programs is not what is measured; the id passes through memory.
// TUTTI_TRANSPORT and the other settings count.
#include <malloc.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tutti/tutti.h"

namespace {

using Seconds = std::chrono::duration<double>;

/// Shared by all processes. The counts are read by the parent alone.
struct Page {
  std::atomic<int> born;     // processes
  std::atomic<int> joined;   // ranks
  std::atomic<int> summed;   // ranks
  std::atomic<int> again;    // ranks
  std::atomic<int> counted;  // processes whose memory is in the sum
  std::atomic<int> failed;
  std::atomic<long> private_kib;
  std::atomic<long> heap_bytes;
  std::atomic<long> proportional_kib;
  tuttiUniqueId id;  // before its gate opens
};

/// Opened once for all processes, which sleep until then: hundreds that poll would be what is measured.
class Gate {
 public:
  Gate() {
    if (::pipe(ends_) != 0) std::abort();
  }
  /// In every process but the one that opens it.
  void only_wait() { ::close(std::exchange(ends_[1], -1)); }
  void open() { only_wait(); }
  void wait() const {
    pollfd wanted{ends_[0], POLLIN, 0};
    while (::poll(&wanted, 1, -1) < 0) {
    }
  }

 private:
  int ends_[2] = {-1, -1};
};

struct Gates {
  Gate start;  // opened by the parent
  Gate id;     // by rank 0's process
  Gate sum;    // by the parent, and the next ones
  Gate again;
  Gate count;
  Gate leave;
};

void count_memory(Page& page) {
  const struct mallinfo2 heap = ::mallinfo2();
  page.heap_bytes.fetch_add(static_cast<long>(heap.uordblks + heap.hblkhd));
  std::ifstream rollup("/proc/self/smaps_rollup");
  for (std::string line; std::getline(rollup, line);) {
    if (line.rfind("Pss:", 0) == 0) page.proportional_kib.fetch_add(std::atol(line.c_str() + 4));
    if (line.rfind("Private_", 0) == 0) page.private_kib.fetch_add(std::atol(line.c_str() + line.find(':') + 1));
  }
}

bool right(Page& page, int rank, const char* what, tuttiResult_t result) {
  if (result == tuttiSuccess) return true;
  std::fprintf(stderr, "rank %d: %s: %s\n", rank, what, tuttiGetLastError(nullptr));
  page.failed.fetch_add(1);
  return false;
}

void sum(Page& page, tuttiComm_t comm, int rank, int ranks) {
  const float mine = 1;
  float total = 0;
  if (right(page, rank, "all_reduce", tuttiAllReduce(&mine, &total, 1, tuttiFloat32, tuttiSum, comm, nullptr)) &&
      total != static_cast<float>(ranks)) {
    std::fprintf(stderr, "rank %d: the sum is %g\n", rank, static_cast<double>(total));
    page.failed.fetch_add(1);
  }
}

void run_rank(Page& page, const Gates& gates, int rank, int ranks) {
  tuttiComm_t comm = nullptr;
  const bool joined = right(page, rank, "join", tuttiCommInitRank(&comm, ranks, page.id, rank));
  page.joined.fetch_add(1, std::memory_order_acq_rel);
  gates.sum.wait();
  if (joined) sum(page, comm, rank, ranks);
  page.summed.fetch_add(1, std::memory_order_acq_rel);
  gates.again.wait();
  if (joined) sum(page, comm, rank, ranks);
  page.again.fetch_add(1, std::memory_order_acq_rel);
  gates.leave.wait();
  if (joined) right(page, rank, "leaving", tuttiCommDestroy(comm));
}

void run_process(Page& page, Gates& gates, int first, int end, int ranks) {
  for (Gate* const gate : {&gates.start, &gates.sum, &gates.again, &gates.count, &gates.leave}) gate->only_wait();
  if (first != 0) gates.id.only_wait();
  page.born.fetch_add(1, std::memory_order_acq_rel);
  gates.start.wait();
  if (first == 0) {
    if (tuttiGetUniqueId(&page.id) != tuttiSuccess) std::abort();
    gates.id.open();
  }
  gates.id.wait();
  std::vector<std::thread> threads;
  for (int rank = first; rank < end; ++rank)
    threads.emplace_back([&page, &gates, rank, ranks] { run_rank(page, gates, rank, ranks); });
  gates.count.wait();
  count_memory(page);
  page.counted.fetch_add(1, std::memory_order_acq_rel);
  for (std::thread& thread : threads) thread.join();
}

double processor_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_CHILDREN, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

void wait_until(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::microseconds(500));
}

/// Opens the gate, and returns how long it took until so many had come.
Seconds time(Gate& gate, const std::atomic<int>& came, int wanted) {
  const auto begin = std::chrono::steady_clock::now();
  gate.open();
  wait_until([&] { return came.load(std::memory_order_acquire) == wanted; });
  return std::chrono::steady_clock::now() - begin;
}

int measure(int ranks, int processes, int hosts) {
  void* const memory = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Page& page = *new (memory) Page{};
  Gates gates;
  for (int i = 0; i < processes; ++i) {
    const int first = static_cast<int>(static_cast<long>(ranks) * i / processes);
    const int end = static_cast<int>(static_cast<long>(ranks) * (i + 1) / processes);
    if (::fork() == 0) {
      if (hosts > 1) ::setenv("TUTTI_HOSTID", ("host " + std::to_string(i * hosts / processes)).c_str(), 1);
      run_process(page, gates, first, end, ranks);
      std::exit(0);
    }
  }
  gates.id.only_wait();
  wait_until([&] { return page.born.load(std::memory_order_acquire) == processes; });
  const Seconds join = time(gates.start, page.joined, ranks);
  const Seconds first_sum = time(gates.sum, page.summed, ranks);
  const Seconds second_sum = time(gates.again, page.again, ranks);
  time(gates.count, page.counted, processes);
  const auto leaving = std::chrono::steady_clock::now();
  gates.leave.open();
  for (int end = 0; ::wait(&end) > 0;)
    if (end != 0) page.failed.fetch_add(1);
  const Seconds leave = std::chrono::steady_clock::now() - leaving;
  const double mib_each = 1024.0 * processes;
  std::printf(
      "%5d ranks %5d processes %4d hosts: join %7.3f s, first sum %7.3f s, second %7.3f s, leave %7.3f s, "
      "processor %7.2f s; a process has %.2f MiB of its own, %.2f with its share, %.0f bytes "
      "of heap in use%s\n",
      ranks, processes, hosts, join.count(), first_sum.count(), second_sum.count(), leave.count(), processor_seconds(),
      static_cast<double>(page.private_kib.load()) / mib_each,
      static_cast<double>(page.proportional_kib.load()) / mib_each,
      static_cast<double>(page.heap_bytes.load()) / processes, page.failed.load() > 0 ? ", FAILED" : "");
  return page.failed.load() > 0 ? 1 : 0;
}

}  // namespace

int main(int count, char** arguments) {
  const int ranks = count > 1 ? std::atoi(arguments[1]) : 0;
  const int processes = count > 2 ? std::atoi(arguments[2]) : 0;
  const int hosts = count > 3 ? std::atoi(arguments[3]) : 1;
  if (processes < 1 || ranks < processes || hosts < 1 || hosts > processes) {
    std::fprintf(stderr, "usage: %s RANKS PROCESSES [HOSTS]\n", arguments[0]);
    return 2;
  }
  return measure(ranks, processes, hosts);
}
