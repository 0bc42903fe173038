// A rank is killed or stopped, or loses a connection, at each message that it sends in a job of joins, splits, sums and
// ends: the others end at once (a death) or by their deadline (silence), and name it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <tuple>
#include <utility>

#include "steps/last_step.h"
#include "support/await.h"
#include "support/depth.h"
#include "support/job.h"
#include "support/ranks.h"
#include "support/texts.h"
#include "support/yardstick.h"

namespace tutti::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kRanks = 3;

/// In memory that all ranks share.
struct Report {
  tuttiUniqueId id;
  std::atomic<bool> id_ready;
  std::atomic<bool> armed;
  std::atomic<long> steps;  // of the victim
  std::array<std::atomic<int>, kRanks> results;
  char texts[kRanks][1000];
};

class Steps : public ::testing::TestWithParam<std::tuple<std::pair<const char*, LastStep>, int, const char*>> {
 protected:
  Steps() {
    void* const memory = ::mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    report_ = static_cast<Report*>(memory);
  }
  ~Steps() override { ::munmap(report_, sizeof(Report)); }

  LastStep what() const { return std::get<0>(GetParam()).second; }
  int victim() const { return std::get<1>(GetParam()); }

  /// Runs the job in a process a rank; how long the others took from the last step of the victim on.
  double run(LastStep last, long k) {
    ::new (report_) Report{};
    for (auto& result : report_->results) result = -1;
    std::array<pid_t, kRanks> pids{};
    for (int rank = 0; rank < kRanks; ++rank)
      if (pid_t& pid = pids[static_cast<std::size_t>(rank)]; (pid = ::fork()) == 0) run_rank(rank, last, k);
    Yardstick yardstick;
    const Clock::time_point began = Clock::now();
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim() && is_lost(last)) continue;
      EXPECT_EQ(await_end(pids[static_cast<std::size_t>(rank)]), 0) << "rank " << rank << ", message " << k;
    }
    const std::chrono::duration<double> took = Clock::now() - began;
    slow_ = yardstick.limit(std::chrono::duration<double>(1)).count();
    if (is_lost(last)) end_child(pids[static_cast<std::size_t>(victim())]);
    return took.count();
  }

  static bool is_lost(LastStep last) { return last == LastStep::kKill || last == LastStep::kStop; }
  /// Whether one of the others knows whose doing it was, or all went well for them.
  bool is_named() const {
    bool well = true;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim()) continue;
      well = well && result(rank) == 0;
      const std::string text = report_->texts[rank];
      if (contains(text, "rank " + std::to_string(victim())) || contains(text, "unique id")) return true;
    }
    return well;
  }

  std::string texts() const {
    std::string all;
    for (int rank = 0; rank < kRanks; ++rank)
      all += "\n  " + std::to_string(rank) + ": " + std::to_string(report_->results[static_cast<std::size_t>(rank)]) +
             " " + report_->texts[rank];
    return all;
  }
  int result(int rank) const { return report_->results[static_cast<std::size_t>(rank)]; }

  Report* report_ = nullptr;
  double slow_ = 1;  // how much longer a second was on this machine, in the last run
  const ScopedSetting transport_{"TUTTI_TRANSPORT", std::get<2>(GetParam())};
  const ScopedSetting quiet_{"TUTTI_LOG", "error"};
  const ScopedSetting call_{"TUTTI_TIMEOUT", "2"};
  const ScopedSetting join_{"TUTTI_JOIN_TIMEOUT", "2"};

 private:
  [[noreturn]] void run_rank(int rank, LastStep last, long k) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (rank == 0) {
      if (tuttiGetUniqueId(&report_->id) != tuttiSuccess) ::_exit(4);
      report_->id_ready = true;
    }
    await_or_exit([this] { return report_->id_ready.load(); }, "the id");
    if (rank == victim()) set_last_step(last, k);
    const Job job(report_->id, kRanks, rank, {&Job::add, &Job::split, &Job::add});
    if (!job.is_exact()) {
      std::fprintf(stderr, "rank %d: a wrong sum\n", rank);
      ::_exit(3);
    }
    std::strcpy(report_->texts[rank], job.text());
    report_->results[static_cast<std::size_t>(rank)] = job.result();
    if (rank == victim()) report_->steps = steps();
    ::_exit(0);
  }
};

TEST_P(Steps, EachCanBeTheLast) {
  run(LastStep::kNone, 1'000'000);
  for (int rank = 0; rank < kRanks; ++rank) ASSERT_EQ(result(rank), 0) << texts();
  const long messages = report_->steps;
  ASSERT_GT(messages, 5);
  RecordProperty("messages", static_cast<int>(messages));
  int failures = 0;
  for (long k = 1; k <= messages; k += covers_all() || what() == LastStep::kKill ? 1 : messages / 5) {
    const double took = run(what(), k);
    // Until it has said which rank it is, nobody knows that it has come: the others wait for it until their deadline.
    const bool at_once = what() == LastStep::kKill && k > 3;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim() || result(rank) == 0) continue;
      ++failures;
      EXPECT_FALSE(at_once && result(rank) == tuttiTimeout) << "message " << k << texts();
    }
    EXPECT_LE(took, (at_once ? 1 : 7) * slow_) << "message " << k << " of " << messages << texts();
    if (is_lost(what())) {
      EXPECT_TRUE(is_named()) << "message " << k << " of " << messages << texts();
    }
  }
  if (is_lost(what())) {
    EXPECT_GT(failures, 0) << "the case checks nothing";
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Steps,
                         ::testing::Combine(::testing::Values(std::pair("killed", LastStep::kKill),
                                                              std::pair("stopped", LastStep::kStop),
                                                              std::pair("cut", LastStep::kCut)),
                                            ::testing::Values(0, 1), ::testing::Values("shm", "tcp")),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).first) + "_rank" +
                                  std::to_string(std::get<1>(info.param)) + "_" + std::get<2>(info.param);
                         });

}  // namespace
}  // namespace tutti::test
