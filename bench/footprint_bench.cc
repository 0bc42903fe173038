// What communicators cost that do nothing: memory and time of many of them in one process, whose threads are the ranks.
//
//   footprint_bench [COMMUNICATORS] [RANKS] [CALLS] [FILE]   1000, 4 and 0 unless given; CALLS: all-reduces of 8 bytes
//   in each; FILE gets the same as JSON
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

/// Holds what was measured until it is printed and written to the file.
class Report {
 public:
  void add(const char* what, double value, const char* unit) {
    std::printf("%-32s %8.1f %s\n", what, value, unit);
    char row[128];
    std::snprintf(row, sizeof row, R"(%s{"what": "%s", "value": %.4g, "unit": "%s"})", rows_.empty() ? "" : ",\n", what,
                  value, unit);
    rows_ += row;
  }
  std::string json(int count, int ranks, int calls) const {
    return "{\"communicators\": " + std::to_string(count) + ", \"ranks\": " + std::to_string(ranks) +
           ", \"calls\": " + std::to_string(calls) + ", \"results\": [\n" + rows_ + "\n]}\n";
  }

 private:
  std::string rows_;
};

/// All communicators but the first, which is there already: with it the process pays what it pays once.
void join_all(std::vector<tuttiComm_t>* comms, std::size_t ranks, Report* report) {
  std::vector<double> joins;
  for (std::size_t first = ranks; first < comms->size(); first += ranks) {
    const Clock::time_point begin = Clock::now();
    check(tuttiCommInitAll(comms->data() + first, static_cast<int>(ranks), nullptr));
    joins.push_back(seconds_since(begin));
  }
  if (joins.empty()) return;
  std::sort(joins.begin(), joins.end());
  report->add("join of a communicator, median", joins[joins.size() / 2] * 1e6, "us");
  report->add("join of a communicator, longest", joins.back() * 1e6, "us");
}

void destroy_all(const std::vector<tuttiComm_t>& comms, std::size_t ranks, Report* report) {
  const Clock::time_point begin = Clock::now();
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      for (std::size_t i = rank; i < comms.size(); i += ranks) check(tuttiCommDestroy(comms[i]));
    });
  for (std::thread& thread : threads) thread.join();
  report->add("destroying a communicator",
              seconds_since(begin) * 1e6 * static_cast<double>(ranks) / static_cast<double>(comms.size()), "us");
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 1000;
  const int ranks = argc > 2 ? std::atoi(argv[2]) : 4;
  const int calls = argc > 3 ? std::atoi(argv[3]) : 0;
  if (count < 1 || ranks < 1 || calls < 0 || argc > 5) {
    std::fprintf(stderr, "usage: %s [COMMUNICATORS] [RANKS] [CALLS] [FILE]\n", argv[0]);
    return 2;
  }
  const auto size = static_cast<std::size_t>(ranks);
  Report report;
  std::printf("%d communicators of %d ranks in one process, %d calls in each\n", count, ranks, calls);
  std::vector<tuttiComm_t> comms(static_cast<std::size_t>(count) * size);
  check(tuttiCommInitAll(comms.data(), ranks, nullptr));
  const double private_before = memory_kib("RssAnon"), shared_before = memory_kib("RssShmem");
  join_all(&comms, size, &report);
  call_all(comms, ranks, calls);
  const double each = std::max(1, count - 1) * static_cast<double>(ranks);
  const auto handles = static_cast<double>(comms.size());
  report.add("private memory of a rank", (memory_kib("RssAnon") - private_before) / each, "KiB");
  report.add("shared memory of a rank, touched", (memory_kib("RssShmem") - shared_before) / each, "KiB");
  report.add("tuttiCommMemStats, host", static_cast<double>(reported(comms, tuttiMemStatHost)) / 1024 / handles, "KiB");
  report.add("tuttiCommMemStats, shared", static_cast<double>(reported(comms, tuttiMemStatShared)) / 1024 / handles,
             "KiB");
  destroy_all(comms, size, &report);
  if (argc > 4) std::ofstream(argv[4]) << report.json(count, ranks, calls);
  return 0;
}
