// Covers executor/polled_run.cc.
// When a thread sleeps that waits for a device: not while the call goes on, and not before a sleep is short beside it.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <memory>

#include "core/clock.h"
#include "executor/cpu_executor.h"
#include "executor/device/hosted_executor.h"
#include "executor/polled_run.h"
#include "transport/inproc.h"

namespace tutti::test {
namespace {

/// How often the calling thread has slept.
long sleeps_of_this_thread() {
  rusage usage{};
  EXPECT_EQ(getrusage(RUSAGE_THREAD, &usage), 0);
  return usage.ru_nvcsw;
}

class EndlessPatience final : public WaitMonitor {
 public:
  Status check(Rank, std::uint64_t) override { return {}; }
};

/// A call that has no effect: nothing happens for a while, and then something at each look.
class EmptyCall final : public HostedExecutor {
 public:
  EmptyCall(Executor& host, std::chrono::nanoseconds silent, int steps)
      : HostedExecutor(host), speaks_(Clock::now() + silent), steps_(steps) {}
  using HostedExecutor::run;
  using HostedExecutor::start;
  void start(const Launch&) override {}
  Progress advance() override {
    if (Clock::now() < speaks_) return Progress::kAgain;
    if (progress_ == 0) slept_ = sleeps_of_this_thread();
    return progress_++ == static_cast<std::uint64_t>(steps_) ? Progress::kDone : Progress::kAgain;
  }
  Status run(const Launch&, WaitMonitor&) override { return {}; }
  void abandon() override {}
  Rank awaited() const override { return kNoRank; }
  std::uint64_t progress() const override { return progress_; }
  Rank mismatched() const override { return kNoRank; }
  std::size_t scratch_bytes() const override { return 0; }
  void sleep(std::chrono::nanoseconds) override {}

  /// How often the thread has slept since something happened.
  long sleeps_of_steps() const { return sleeps_of_this_thread() - slept_; }

 private:
  const Clock::time_point speaks_;
  const int steps_;
  std::uint64_t progress_ = 0;
  long slept_ = 0;
};

class PolledRun : public ::testing::Test {
 protected:
  static constexpr std::chrono::microseconds kNap{50};
  CpuExecutor<InprocEndpoint> host_{
      std::make_unique<InprocEndpoint>(std::make_shared<InprocFabric>(1, 1, Bytes{64}), Rank{0}),
      LadderPolicy::choose(1, -1), PointToPointPolicy{Lane{0}}};
  EndlessPatience patience_;
};

TEST_F(PolledRun, DoesNotSleepInAShortCall) {
  EmptyCall call(host_, std::chrono::milliseconds{3}, 0);
  const long before = sleeps_of_this_thread();
  EXPECT_TRUE(run_polled(call, patience_, kNap).ok());
  EXPECT_LE(sleeps_of_this_thread() - before, 2);
}

// Whatever moves a call is often the start of what moves it next, so a sleep after each look would make it much longer.
TEST_F(PolledRun, DoesNotSleepWhileTheCallGoesOn) {
  EmptyCall call(host_, std::chrono::milliseconds{10}, 400);
  EXPECT_TRUE(run_polled(call, patience_, kNap).ok());
  EXPECT_LE(call.sleeps_of_steps(), 20);
}

TEST_F(PolledRun, SleepsInALongWait) {
  EmptyCall call(host_, std::chrono::milliseconds{100}, 0);
  const long before = sleeps_of_this_thread();
  EXPECT_TRUE(run_polled(call, patience_, kNap).ok());
  EXPECT_GE(sleeps_of_this_thread() - before, 10);
}

}  // namespace
}  // namespace tutti::test
