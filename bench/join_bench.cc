// What a join costs: time until the last rank's join has returned, processor time and memory of all processes, and the
// time until all have left.
//
//   join_bench RANKS PROCESSES [HOSTS]    HOSTS: how many the ranks pretend to be on, 1 unless given
//
// The processes are forked first, so that starting programs is not what is measured; the id passes through memory.
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

#include "comm/join/join.h"

namespace {

using namespace tutti;
using Seconds = std::chrono::duration<double>;

constexpr Bytes kSegment{64 * 1024};

/// Shared by all processes. The counts are read by the parent alone.
struct Page {
  std::atomic<int> born;     // processes
  std::atomic<int> joined;   // ranks
  std::atomic<int> counted;  // processes whose memory is in the sum
  std::atomic<int> failed;
  std::atomic<long> memory_kib;
  IdBytes id;  // before its gate opens
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
  Gate count;  // by the parent, and the next
  Gate leave;
};

long proportional_kib() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  for (std::string line; std::getline(rollup, line);)
    if (line.rfind("Pss:", 0) == 0) return std::atol(line.c_str() + 4);
  return 0;
}

JoinRequest request_for(const Page& page, int rank, int ranks, int hosts) {
  JoinRequest request;
  request.id = page.id;
  request.rank = Rank{rank};
  request.ranks = ranks;
  request.deadline = Deadline::in(300);
  request.segment_bytes = kSegment;
  if (hosts > 1) request.settings.host_id = "host " + std::to_string(rank * hosts / ranks);
  return request;
}

void run_rank(Page& page, const Gates& gates, int rank, int ranks, int hosts) {
  JoinResult joined;
  const Status status = join(request_for(page, rank, ranks, hosts), &joined);
  if (!status.ok()) {
    std::fprintf(stderr, "rank %d: %s\n", rank, status.text().c_str());
    page.failed.fetch_add(1);
  }
  page.joined.fetch_add(1, std::memory_order_acq_rel);
  gates.leave.wait();
  if (status.ok()) joined.membership->say_goodbye(1);
}

void run_process(Page& page, Gates& gates, int first, int end, int ranks, int hosts) {
  for (Gate* const gate : {&gates.start, &gates.count, &gates.leave}) gate->only_wait();
  if (first != 0) gates.id.only_wait();
  page.born.fetch_add(1, std::memory_order_acq_rel);
  gates.start.wait();
  if (first == 0) {
    if (!make_unique_id(Settings{}, &page.id).ok()) std::abort();
    gates.id.open();
  }
  gates.id.wait();
  std::vector<std::thread> threads;
  for (int rank = first; rank < end; ++rank)
    threads.emplace_back([&page, &gates, rank, ranks, hosts] { run_rank(page, gates, rank, ranks, hosts); });
  gates.count.wait();
  page.memory_kib.fetch_add(proportional_kib());
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

int measure(int ranks, int processes, int hosts) {
  void* const memory = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Page& page = *new (memory) Page{};
  Gates gates;
  for (int i = 0; i < processes; ++i) {
    const int first = static_cast<int>(static_cast<long>(ranks) * i / processes);
    const int end = static_cast<int>(static_cast<long>(ranks) * (i + 1) / processes);
    if (::fork() == 0) {
      run_process(page, gates, first, end, ranks, hosts);
      std::exit(0);
    }
  }
  gates.id.only_wait();
  wait_until([&] { return page.born.load(std::memory_order_acquire) == processes; });
  const auto begin = std::chrono::steady_clock::now();
  gates.start.open();
  wait_until([&] { return page.joined.load(std::memory_order_acquire) == ranks; });
  const Seconds join = std::chrono::steady_clock::now() - begin;
  gates.count.open();
  wait_until([&] { return page.counted.load(std::memory_order_acquire) == processes; });
  const auto leaving = std::chrono::steady_clock::now();
  gates.leave.open();
  for (int end = 0; ::wait(&end) > 0;)
    if (end != 0) page.failed.fetch_add(1);
  const Seconds leave = std::chrono::steady_clock::now() - leaving;
  std::printf("%5d ranks %5d processes %4d hosts: join %7.3f s, leave %7.3f s, processor %7.2f s, memory %7.1f MiB%s\n",
              ranks, processes, hosts, join.count(), leave.count(), processor_seconds(),
              static_cast<double>(page.memory_kib.load()) / 1024, page.failed.load() > 0 ? ", FAILED" : "");
  return page.failed.load() > 0 ? 1 : 0;
}

}  // namespace

int main(int count, char** arguments) {
  const int ranks = count > 1 ? std::atoi(arguments[1]) : 0;
  const int processes = count > 2 ? std::atoi(arguments[2]) : 0;
  const int hosts = count > 3 ? std::atoi(arguments[3]) : 1;
  if (processes < 1 || ranks < processes || hosts < 1 || hosts > ranks) {
    std::fprintf(stderr, "usage: %s RANKS PROCESSES [HOSTS]\n", arguments[0]);
    return 2;
  }
  return measure(ranks, processes, hosts);
}
