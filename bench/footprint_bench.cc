// What communicators cost that do nothing: memory and time of many of them in one process, whose threads are the ranks.
//
//   footprint_bench [COMMUNICATORS] [RANKS] [CALLS]    1000, 4 and 0 unless given; CALLS: all-reduces of 8 bytes in
//   each
#include <tutti/tutti.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// KiB of this process, by the name in /proc/self/status; what is shared counts once a mapping.
double memory_kib(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name + ":")) return std::strtod(line.c_str() + name.size() + 1, nullptr);
  return 0;
}

void check(tuttiResult_t code) {
  if (code == tuttiSuccess) return;
  std::fprintf(stderr, "%s: %s\n", tuttiGetErrorString(code), tuttiGetLastError(nullptr));
  std::exit(1);
}

std::uint64_t reported(const std::vector<tuttiComm_t>& comms, tuttiMemStat_t what) {
  std::uint64_t sum = 0;
  for (tuttiComm_t comm : comms) {
    std::uint64_t bytes = 0;
    check(tuttiCommMemStats(comm, what, &bytes));
    sum += bytes;
  }
  return sum;
}

void call_all(const std::vector<tuttiComm_t>& comms, int ranks, int calls) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      float in[2] = {1, 2}, out[2];
      for (std::size_t i = static_cast<std::size_t>(rank); i < comms.size(); i += static_cast<std::size_t>(ranks))
        for (int call = 0; call < calls; ++call)
          check(tuttiAllReduce(in, out, 2, tuttiFloat32, tuttiSum, comms[i], nullptr));
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 1000;
  const int ranks = argc > 2 ? std::atoi(argv[2]) : 4;
  const int calls = argc > 3 ? std::atoi(argv[3]) : 0;
  if (count < 1 || ranks < 1 || calls < 0 || argc > 4) {
    std::fprintf(stderr, "usage: %s [COMMUNICATORS] [RANKS] [CALLS]\n", argv[0]);
    return 2;
  }
  const auto size = static_cast<std::size_t>(ranks);
  std::vector<tuttiComm_t> comms(static_cast<std::size_t>(count) * size);
  check(tuttiCommInitAll(comms.data(), ranks, nullptr));  // what the process pays once
  const double private_before = memory_kib("RssAnon"), shared_before = memory_kib("RssShmem");
  std::vector<double> joins;
  for (std::size_t i = 1; i < static_cast<std::size_t>(count); ++i) {
    const Clock::time_point begin = Clock::now();
    check(tuttiCommInitAll(&comms[i * size], ranks, nullptr));
    joins.push_back(seconds_since(begin));
  }
  call_all(comms, ranks, calls);
  const double each = std::max(1, count - 1) * static_cast<double>(ranks);
  std::printf("%d communicators of %d ranks in one process, %d calls in each\n", count, ranks, calls);
  std::printf("private memory        %8.1f KiB a rank and communicator\n",
              (memory_kib("RssAnon") - private_before) / each);
  std::printf("shared memory touched %8.1f KiB\n", (memory_kib("RssShmem") - shared_before) / each);
  std::printf("tuttiCommMemStats     %8.1f KiB host, %.1f KiB shared\n",
              static_cast<double>(reported(comms, tuttiMemStatHost)) / 1024 / static_cast<double>(comms.size()),
              static_cast<double>(reported(comms, tuttiMemStatShared)) / 1024 / static_cast<double>(comms.size()));
  if (!joins.empty()) {
    std::sort(joins.begin(), joins.end());
    std::printf("join                  %8.1f us median, %.1f us longest\n", joins[joins.size() / 2] * 1e6,
                joins.back() * 1e6);
  }
  const Clock::time_point begin = Clock::now();
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      for (std::size_t i = rank; i < comms.size(); i += size) check(tuttiCommDestroy(comms[i]));
    });
  for (std::thread& thread : threads) thread.join();
  std::printf("destroy               %8.1f us a communicator\n", seconds_since(begin) / count * 1e6);
  return 0;
}
