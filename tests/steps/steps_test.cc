// A rank is killed or stopped, or loses a connection, at each message that it sends in a job of joins, splits, sums and
// ends: the others end at once (a death) or by their deadline (silence), and name it.
// Covers comm/join/root.cc, comm/split.cc, comm/parent_monitor.cc, comm/membership/process_membership_liveness.cc.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "steps/last_step.h"
#include "support/depth.h"
#include "support/disturbed_job.h"
#include "support/job.h"
#include "support/patience.h"
#include "support/rank_processes.h"
#include "support/shared_memory.h"
#include "support/texts.h"
#include "support/yardstick.h"

namespace tutti::test {
namespace {

constexpr int kRanks = DisturbedJob::kRanks;
constexpr std::array<Job::Part, 3> kParts{&Job::add, &Job::split, &Job::add};

class TimedSteps : public ::testing::TestWithParam<std::tuple<std::pair<const char*, LastStep>, int, const char*>> {
 protected:
  LastStep what() const { return std::get<0>(GetParam()).second; }
  int victim() const { return std::get<1>(GetParam()); }

  void run(LastStep last, long k) {
    const auto begin = [=, this](int rank) {
      if (rank == victim()) set_last_step(last, k);
    };
    const int lost = is_lost(last) ? victim() : DisturbedJob::kNobody;
    job_.run(
        kParts, begin, [](int) { return steps(); }, lost);
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == lost) continue;
      EXPECT_EQ(job_.end(rank), 0) << "rank " << rank << ", message " << k;
      EXPECT_TRUE(job_.is_exact(rank)) << "rank " << rank << ", message " << k << ": a wrong sum";
    }
  }

  static bool is_lost(LastStep last) { return last == LastStep::kKill || last == LastStep::kStop; }
  /// Whether one of the others knows whose doing it was, or all went well for them.
  bool is_named() const {
    bool well = true;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim()) continue;
      well = well && job_.result(rank) == 0;
      const std::string text = job_.text(rank);
      if (contains(text, "rank " + std::to_string(victim())) || contains(text, "unique id")) return true;
    }
    return well;
  }

  DisturbedJob job_;
  const ScopedSetting transport_{"TUTTI_TRANSPORT", std::get<2>(GetParam())};
  const ScopedDeadlines deadlines_{2};
};

TEST_P(TimedSteps, EachCanBeTheLast) {
  run(LastStep::kNone, 1'000'000);
  for (int rank = 0; rank < kRanks; ++rank) ASSERT_EQ(job_.result(rank), 0) << job_.texts();
  const long messages = job_.kept(victim());
  ASSERT_GT(messages, 5);
  RecordProperty("messages", static_cast<int>(messages));
  int failures = 0;
  // What is no death takes as long as the deadline, or a new connection.
  const long tried = what() == LastStep::kKill ? messages : points_tried(messages / 2, 5);
  for (long k = 1; k <= messages; k += messages / tried) {
    run(what(), k);
    // Until it has said which rank it is, nobody knows that it has come: the others wait for it until their deadline.
    const bool at_once = what() == LastStep::kKill && k > 3;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim() || job_.result(rank) == 0) continue;
      ++failures;
      EXPECT_FALSE(at_once && job_.result(rank) == tuttiTimeout) << "message " << k << job_.texts();
    }
    EXPECT_LE(job_.seconds(), (at_once ? 1 : 7) * job_.second_here())
        << "message " << k << " of " << messages << job_.texts();
    if (is_lost(what())) {
      EXPECT_TRUE(is_named()) << "message " << k << " of " << messages << job_.texts();
    }
  }
  if (is_lost(what())) {
    EXPECT_GT(failures, 0) << "the case checks nothing";
  }
}

INSTANTIATE_TEST_SUITE_P(Of, TimedSteps,
                         ::testing::Combine(::testing::Values(std::pair("killed", LastStep::kKill),
                                                              std::pair("stopped", LastStep::kStop),
                                                              std::pair("cut", LastStep::kCut)),
                                            ::testing::Values(0, 1), ::testing::Values("shm", "tcp")),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).first) + "_rank" +
                                  std::to_string(std::get<1>(info.param)) + "_" + std::get<2>(info.param);
                         });

constexpr std::array<Job::Part, 7> kLostParts{&Job::add,    &Job::split, &Job::shrink,  &Job::add,
                                              &Job::shrink, &Job::split, &Job::exchange};

class TimedLosses : public ::testing::TestWithParam<int> {
 protected:
  int victim() const { return GetParam(); }
  void run(long k) {
    job_.run(
        kLostParts,
        [=, this](int rank) {
          if (rank == victim()) set_last_step(LastStep::kLose, k);
        },
        [](int) { return has_lost() ? -steps() : steps(); });
  }

  DisturbedJob job_;
  const ScopedSetting transport_{"TUTTI_TRANSPORT", "tcp"};
  const ScopedDeadlines deadlines_{kFarSeconds};
};

// The sender has finished its part, and may wait for the others in a join by then.
TEST_P(TimedLosses, OfEachMessageCostATimeOnly) {
  run(1'000'000);
  ASSERT_TRUE(job_.is_success()) << job_.texts();
  const long messages = job_.kept(victim());
  ASSERT_GT(messages, 20);
  int lost = 0;
  // Sanitizers make a job take a second and more. In a short run each victim loses every third message.
  const long stride = kSanitized ? 4 : covers_all() ? 1 : 3;
  for (long k = 1 + victim() % stride; k <= messages; k += stride) {
    run(k);
    if (job_.kept(victim()) < 0) ++lost;
    EXPECT_TRUE(job_.is_success()) << "message " << k << " of " << messages << job_.texts();
    EXPECT_LE(job_.seconds(), job_.second_here()) << "message " << k << " of " << messages << job_.texts();
  }
  RecordProperty("lost", lost);
  EXPECT_GT(lost, 10 / stride) << "the case checks nothing";
}

INSTANTIATE_TEST_SUITE_P(Of, TimedLosses, ::testing::Range(0, 3),
                         [](const auto& info) { return "rank" + std::to_string(info.param); });

/// A job of rank 0 in one process and ranks 1 and 2 in another one.
class JobOfTwoProcesses {
 public:
  /// The second process is killed at its k-th message.
  void run(long k) {
    report_.reset();
    RankProcesses processes;
    start(processes, [this] { run_rank(0); });
    start(processes, [this, k] {
      set_last_step(LastStep::kKill, k);
      std::thread other([this] { run_rank(2); });
      run_rank(1);
      other.join();
      report_->kept[1] = steps();
    });
    const Yardstick yardstick;
    const auto began = std::chrono::steady_clock::now();
    EXPECT_EQ(processes.wait(0), 0) << "message " << k;
    late_ = yardstick.judge(1, std::chrono::steady_clock::now() - began);
    (void)processes.wait(1);
  }
  int result(int rank) const { return report_->results[static_cast<std::size_t>(rank)]; }
  const char* text(int rank) const { return report_->texts[rank]; }
  /// Of the second process.
  long messages() const { return report_->kept[1]; }
  /// What is wrong with the promise of a second; empty if it was kept.
  const std::string& late() const { return late_; }

 private:
  template <class Main>
  static void start(RankProcesses& processes, const Main& main) {
    processes.start(
        [&main] {
          (void)tuttiSetLogCallback([](int, const char*, void*) {}, nullptr);
          main();
        },
        ProcessEnd::kWithExitHandlers);
  }
  void run_rank(int rank) {
    report_->run(rank, kParts, [](int) { return 0L; });
  }

  SharedMemory<JobReport> report_;
  std::string late_;
};

class TimedStepsOfTwoRanks : public ::testing::TestWithParam<const char*> {
 protected:
  const ScopedSetting transport_{"TUTTI_TRANSPORT", GetParam()};
  const ScopedDeadlines deadlines_{2};
};

// One of the two may have said that it is ready, or that it has ended, and the other not.
TEST_P(TimedStepsOfTwoRanks, AtEachBothDie) {
  JobOfTwoProcesses job;
  job.run(1'000'000);
  for (int rank = 0; rank < kRanks; ++rank) ASSERT_EQ(job.result(rank), 0) << job.text(rank);
  const long messages = job.messages();
  ASSERT_GT(messages, 5);
  RecordProperty("messages", static_cast<int>(messages));
  int failures = 0;
  for (long k = 1; k <= messages; ++k) {
    job.run(k);
    if (job.result(0) == 0) continue;
    ++failures;
    const std::string text = job.text(0);
    const bool is_named = contains(text, "rank 1") || contains(text, "rank 2") || contains(text, "ranks 1 and 2");
    EXPECT_TRUE(is_named) << "message " << k << " of " << messages << ": " << text;
    if (k <= 4) continue;  // until both have said who they are, rank 0 waits for them until its deadline
    EXPECT_NE(job.result(0), tuttiTimeout) << "message " << k << " of " << messages << ": " << text;
    EXPECT_EQ(job.late(), "") << "message " << k << " of " << messages << ": " << text;
  }
  EXPECT_GT(failures, 0) << "the case checks nothing";
}

INSTANTIATE_TEST_SUITE_P(Over, TimedStepsOfTwoRanks, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tutti::test
