// Ranks that die or stop at any time, also while the others shrink: those that are left go on with a communicator of
// their own, and agree on who is in it.
// Covers comm/shrink.cc, comm/recovery/process_recovery.cc, comm/recovery/agreement.cc.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "support/depth.h"
#include "support/ranks.h"
#include "support/sanitized.h"
#include "support/seed.h"
#include "support/texts.h"
#include "support/yardstick.h"

namespace tutti::test {
namespace {

using Clock = std::chrono::steady_clock;
using Numbers = std::vector<int>;

constexpr int kMost = 8;

/// What the ranks and the test know of each other, by the ranks' first numbers.
struct Board {
  std::atomic<bool> stops = false;            ///< the ranks are to end
  std::atomic<int> members[kMost] = {};       ///< of a rank's last right sum; a bit each
  std::atomic<Clock::rep> since[kMost] = {};  ///< when the first right sum over these was there
  std::atomic<bool> is_wrong[kMost] = {};     ///< a sum was not exact
};

int bits_of(const Numbers& numbers) {
  int bits = 0;
  for (const int number : numbers) bits |= 1 << number;
  return bits;
}

/// One rank: it makes sums, and shrinks whenever one fails.
class Survivor {
 public:
  Survivor(tuttiComm_t comm, int ranks, int rank, Shared& shared, Board& board, const tuttiConfig_t* config)
      : comm_(comm),
        rank_(rank),
        members_(static_cast<std::size_t>(ranks)),
        shared_(shared),
        board_(board),
        config_(config) {
    std::iota(members_.begin(), members_.end(), 0);
  }

  /// Until all are to end, or this rank is left out or cannot go on.
  void run() {
    for (bool stops = false; !stops;) {
      const tuttiResult_t result = sum(&stops);
      if (result != tuttiSuccess && !shrink(result)) {
        (void)tuttiCommAbort(comm_);
        return;
      }
    }
    EXPECT_EQ(tuttiCommDestroy(comm_), tuttiSuccess) << tuttiGetLastError(nullptr);
    shared_.report(rank_, tuttiSuccess, "");
  }

 private:
  tuttiResult_t sum(bool* stops) {
    std::vector<int> values(1000, 1 << rank_);
    values[0] = board_.stops ? 1 : 0;  // all see the same sum of it
    const tuttiResult_t result =
        tuttiAllReduce(values.data(), values.data(), values.size(), tuttiInt32, tuttiSum, comm_, nullptr);
    if (result != tuttiSuccess) return result;
    *stops = values[0] != 0;
    const int right = bits_of(members_);
    if (std::any_of(values.begin() + 1, values.end(), [=](int value) { return value != right; }))
      board_.is_wrong[rank_] = true;
    if (board_.members[rank_] != right) {
      board_.since[rank_] = Clock::now().time_since_epoch().count();
      board_.members[rank_] = right;
    }
    ++shared_.step[rank_];
    return tuttiSuccess;
  }

  /// A shrink that fails is made again some times, except by a rank that is left out.
  bool shrink(tuttiResult_t result) {
    std::string text = tuttiGetLastError(comm_);
    for (int attempt = 0; attempt < 10 && !contains(text, "left out"); ++attempt) {
      tuttiComm_t made = nullptr;
      result = tuttiCommShrink(comm_, nullptr, 0, &made, config_, TUTTI_SHRINK_DEFAULT);
      if (result == tuttiSuccess) return take(made);
      EXPECT_EQ(made, nullptr);
      text = tuttiGetLastError(comm_);
    }
    shared_.report(rank_, result, text.c_str());
    return false;
  }

  bool take(tuttiComm_t made) {
    char text[100] = {};
    EXPECT_EQ(tuttiCommGetInfo(made, "members", text, sizeof text), tuttiSuccess) << tuttiGetLastError(made);
    std::istringstream words(text);
    Numbers members;
    for (int old = 0; words >> old;) members.push_back(members_.at(static_cast<std::size_t>(old)));
    members_ = members;
    EXPECT_TRUE(std::is_sorted(members_.begin(), members_.end())) << text;
    int count = 0, rank = -1;
    EXPECT_EQ(tuttiCommCount(made, &count), tuttiSuccess);
    EXPECT_EQ(static_cast<std::size_t>(count), members_.size());
    EXPECT_EQ(tuttiCommUserRank(made, &rank), tuttiSuccess);
    EXPECT_EQ(members_.at(static_cast<std::size_t>(rank)), rank_) << text;
    EXPECT_EQ(tuttiCommDestroy(comm_), tuttiSuccess) << tuttiGetLastError(nullptr);
    comm_ = made;
    return true;
  }

  tuttiComm_t comm_;
  const int rank_;
  Numbers members_;  // by their first numbers
  Shared& shared_;
  Board& board_;
  const tuttiConfig_t* const config_;
};

/// A job of such ranks, as processes.
class LastingJob {
 public:
  explicit LastingJob(int ranks, const tuttiConfig_t* config = nullptr)
      : processes_(ranks, [this, ranks, config](tuttiComm_t comm, int rank, Shared& shared) {
          Survivor(comm, ranks, rank, shared, *board_, config).run();
        }) {
    left_.resize(static_cast<std::size_t>(ranks));
    std::iota(left_.begin(), left_.end(), 0);
    for (const int rank : left_) shared().wait_for_step(rank, 3);
  }

  Shared& shared() { return processes_.shared(); }
  const Numbers& left() const { return left_; }
  void kill(int rank) {
    std::erase(left_, rank);
    processes_.signal(rank, SIGKILL);
  }
  void stop(int rank) {
    std::erase(left_, rank);
    stop_process(processes_.pid(rank));
  }
  /// It goes on after a stop, is no part of the job any more, and ends by itself.
  void expect_left_out(int rank) {
    processes_.signal(rank, SIGCONT);
    const auto is_alone = [&] { return board_->members[rank] == 1 << rank; };
    await([&] { return shared().result[rank] >= 0 || is_alone(); }, "the end of rank " + std::to_string(rank));
    EXPECT_FALSE(is_alone()) << "rank " << rank << " goes on alone";
    EXPECT_GT(shared().result[rank], 0) << "rank " << rank;
    if (shared().result[rank] < 0) return;
    EXPECT_EQ(processes_.wait(rank), 0) << "rank " << rank << ": " << shared().text[rank];
    EXPECT_EQ(board_->is_wrong[rank], false);
  }

  /// Until every rank that is left has made a right sum over just these; whether they all have, in time.
  bool await_the_rest() {
    const int right = bits_of(left_);
    const auto all_have = [&] {
      return std::all_of(left_.begin(), left_.end(), [&](int rank) { return board_->members[rank] == right; });
    };
    return await([&] { return all_have() || somebody_ended(); }, "sums of those that are left") && all_have();
  }
  /// When the last of them had.
  Clock::time_point settled() const {
    Clock::rep last = 0;
    for (const int rank : left_) last = std::max(last, board_->since[rank].load());
    return Clock::time_point(Clock::duration(last));
  }
  /// How it is with those that are left, where that is wrong.
  std::string state() {
    std::string text;
    for (const int rank : left_)
      text += "\nrank " + std::to_string(rank) + ": members " + std::to_string(board_->members[rank]) + ", result " +
              std::to_string(shared().result[rank]) + " " + shared().text[rank];
    return text;
  }
  /// They end, and all of their sums were exact.
  void end() {
    board_->stops = true;
    for (const int rank : left_) {
      EXPECT_EQ(processes_.wait(rank), 0) << "rank " << rank;
      EXPECT_EQ(shared().result[rank], tuttiSuccess) << shared().text[rank];
      EXPECT_EQ(board_->is_wrong[rank], false) << "rank " << rank;
    }
  }

 private:
  bool somebody_ended() {
    return std::any_of(left_.begin(), left_.end(), [&](int rank) { return shared().result[rank] >= 0; });
  }

  Numbers left_;
  const SharedMemory<Board> board_;
  Processes processes_;
};

/// How the ranks talk to each other.
struct ShrinkWay {
  const char* name;
  const char* transport;
  const char* tls;
};

class TimedShrinks : public ::testing::TestWithParam<ShrinkWay> {
 protected:
  /// A rank is killed at any time, and in every second round another one while the others shrink. Returns when the
  /// first one was.
  Clock::time_point kill_some(LastingJob& job, int round) {
    const auto one_of_the_rest = [&] { return job.left()[random_() % job.left().size()]; };
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 30'000));
    const Clock::time_point killed = Clock::now();
    job.kill(one_of_the_rest());
    if (round % 2 == 0) return killed;
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 20'000));
    job.kill(one_of_the_rest());
    return killed;
  }

  /// `after`: such as "one kill".
  void record(const std::string& after, std::vector<double> seconds) {
    if (seconds.empty()) return;
    std::sort(seconds.begin(), seconds.end());
    const auto milliseconds = [](double value) { return fmt::format("{:.1f} ms", 1000 * value); };
    RecordProperty("after " + after, fmt::format("median {}, worst {} of {}", milliseconds(seconds[seconds.size() / 2]),
                                                 milliseconds(seconds.back()), seconds.size()));
  }

  std::mt19937 random_{test_seed()};

 private:
  const ScopedSetting quiet_{"TUTTI_LOG", "error"};
  const ScopedSetting transport_{"TUTTI_TRANSPORT", GetParam().transport};
  const ScopedSetting tls_{"TUTTI_TLS", GetParam().tls};
};

// The time is from the first kill to the first right sum of the last rank.
TEST_P(TimedShrinks, AfterKillsAtAnyTimeTheRestGoesOn) {
  SCOPED_TRACE(seed_text());
  std::vector<double> seconds[2];  // after one kill, and after two
  for (int round = 0; round < points_tried(400, kSanitized ? 4 : 8); ++round) {
    const int ranks = 4 + static_cast<int>(random_() % (kSanitized ? 2 : 5));
    LastingJob job(ranks);
    Yardstick yardstick;
    const Clock::time_point begin = kill_some(job, round);
    ASSERT_TRUE(job.await_the_rest()) << "round " << round << " of " << ranks << " ranks: " << job.state();
    const std::chrono::duration<double> took = job.settled() - begin;
    seconds[round % 2].push_back(took.count());
    EXPECT_EQ(yardstick.judge(5, took), "") << "round " << round << " of " << ranks << " ranks: " << job.state();
    job.end();
  }
  record("one kill", seconds[0]);
  record("the first of two kills", seconds[1]);
}

TEST_P(TimedShrinks, OneAfterAnotherDownToASingleRank) {
  SCOPED_TRACE(seed_text());
  std::vector<double> seconds;
  for (int job_number = 0; job_number < points_tried(10, 1); ++job_number) {
    LastingJob job(kSanitized ? 5 : kMost);
    while (job.left().size() > 1) {
      Yardstick yardstick;
      const Clock::time_point begin = Clock::now();
      job.kill(job.left()[random_() % job.left().size()]);
      ASSERT_TRUE(job.await_the_rest()) << job.state();
      const std::chrono::duration<double> took = job.settled() - begin;
      seconds.push_back(took.count());
      EXPECT_EQ(yardstick.judge(5, took), "") << job.left().size() << " are left: " << job.state();
    }
    job.end();
  }
  record("a kill in a chain of them", seconds);
}

// A sum waits for 2 s, and a shrink for 1 s and the time in which a process that does not answer counts as gone.
TEST_P(TimedShrinks, WithoutARankThatIsStoppedTheRestGoesOn) {
  const ScopedSetting timeout("TUTTI_TIMEOUT", "2");
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.joinTimeoutSeconds = 1;
  // In a job of two ranks there is no third rank that could tell the stopped one that it was left out.
  for (const auto& [ranks, victim] : {std::pair{4, 0}, {4, 3}, {2, 0}}) {
    SCOPED_TRACE(fmt::format("without rank {} of {}", victim, ranks));
    LastingJob job(ranks, &config);
    Yardstick yardstick;
    const Clock::time_point begin = Clock::now();
    job.stop(victim);
    ASSERT_TRUE(job.await_the_rest()) << job.state();
    EXPECT_EQ(yardstick.judge(13, job.settled() - begin), "") << job.state();
    job.expect_left_out(victim);
    EXPECT_TRUE(job.await_the_rest()) << job.state();
    job.end();
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, TimedShrinks,
                         ::testing::Values(ShrinkWay{"shm", "shm", "off"}, ShrinkWay{"tcp", "tcp", "off"},
                                           ShrinkWay{"tls", "tcp", "on"}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tutti::test
