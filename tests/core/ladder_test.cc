// Covers core/ladder.h, core/clock.h.
#include "core/ladder.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

#include "core/clock.h"
#include "support/patience.h"

namespace tutti::test {
namespace {

using namespace std::chrono_literals;

TEST(Ladder, ClimbsSpinYieldSleepAndStaysThere) {
  LadderPolicy policy;
  policy.bare_spins = 10;
  policy.spin_for = std::chrono::microseconds{50};
  policy.yield_for = std::chrono::microseconds{200};
  Ladder ladder(policy);
  int rungs[3] = {};
  Ladder::Rung last = Ladder::Rung::kSpin;
  const auto give_up = Clock::now() + kPatience;
  while (last != Ladder::Rung::kSleep && Clock::now() < give_up) {
    const Ladder::Rung rung = ladder.climb();
    EXPECT_GE(rung, last) << "never down without reset()";
    last = rung;
    ++rungs[static_cast<int>(rung)];
  }
  EXPECT_GE(rungs[0], 10);
  EXPECT_EQ(rungs[2], 1);
  EXPECT_EQ(ladder.climb(), Ladder::Rung::kSleep);
  EXPECT_GE(ladder.waited(), std::chrono::microseconds{250});
  ladder.reset();
  EXPECT_EQ(ladder.climb(), Ladder::Rung::kSpin);
  EXPECT_EQ(ladder.waited(), std::chrono::nanoseconds{0});
}

TEST(Ladder, MoreRanksThanCoresHandTheCoreOverAtOnce) {
  const LadderPolicy policy = LadderPolicy::choose(2, -1);
  EXPECT_EQ(policy.spin_for.count(), 0);
  Ladder ladder(policy);
  for (std::uint32_t i = 0; i < policy.bare_spins; ++i) EXPECT_EQ(ladder.climb(), Ladder::Rung::kSpin);
  EXPECT_EQ(ladder.climb(), Ladder::Rung::kYield);
  EXPECT_EQ(LadderPolicy::choose(2, 7).spin_for, std::chrono::microseconds{7}) << "TUTTI_SPIN_US wins";
}

TEST(Ladder, RanksThatShareACoreYieldBetweenAnyTwoLooksAtANetwork) {
  EXPECT_EQ(Ladder(LadderPolicy::choose(2, -1, true)).climb(), Ladder::Rung::kYield);
  EXPECT_EQ(Ladder(LadderPolicy::choose(1, -1, true)).climb(), Ladder::Rung::kSpin);
}

TEST(Ladder, WhoIsLongWithoutTheCoreAfterAYieldSleepsInstead) {
  LadderPolicy policy;
  policy.bare_spins = 0;
  policy.spin_for = std::chrono::nanoseconds{0};
  policy.yield_for = std::chrono::hours{1};
  CoreContention before(1), contention(1);  // a real yield may be slow where the machine is loaded
  EXPECT_EQ(Ladder(policy, before).climb(), Ladder::Rung::kYield);
  const Clock::time_point now = Clock::now();
  contention.yielded(now - CoreContention::kSlowYield, now);
  EXPECT_TRUE(contention.is_expected(now));
  EXPECT_FALSE(contention.is_expected(now + CoreContention::kFirstMemory)) << "for ever";
  contention.yielded(now, now + std::chrono::hours{1});  // whatever this machine's load
  EXPECT_EQ(Ladder(policy, contention).climb(), Ladder::Rung::kSleep);
}

// The turns of many ranks on a core are not taken for another program.
TEST(Ladder, TurnsOfOtherRanksAreNoContention) {
  constexpr int kRanks = 256;
  const Clock::time_point begin = Clock::now();
  const Clock::time_point end = begin + CoreContention::kSlowYield + 200 * CoreContention::kTurn;
  CoreContention crowd(kRanks), alone(1);
  crowd.yielded(begin, end);
  alone.yielded(begin, end);
  EXPECT_FALSE(crowd.is_expected(end));
  EXPECT_TRUE(alone.is_expected(end));
  crowd.yielded(begin, end + 100 * CoreContention::kTurn);
  EXPECT_TRUE(crowd.is_expected(end + 100 * CoreContention::kTurn));
}

TEST(PollDelay, FollowsWhatIsFound) {
  PollDelay delay(true);
  const std::uint32_t fewest = delay.pauses();
  EXPECT_GT(fewest, 0U);
  for (int i = 0; i < 100; ++i) delay.learn(20);
  const std::uint32_t most = delay.pauses();
  EXPECT_GT(most, fewest) << "cores that are far apart";
  delay.learn(20);
  EXPECT_EQ(delay.pauses(), most) << "longer and longer";
  delay.learn(2);
  EXPECT_EQ(delay.pauses(), most) << "neither early nor late";
  for (int i = 0; i < 100; ++i) delay.learn(0);
  EXPECT_EQ(delay.pauses(), fewest);
}

TEST(PollDelay, IsNoneAtTheBeginningOfCallsWhoseMessageIsThere) {
  PollDelay delay(true, 0);
  EXPECT_EQ(delay.pauses(), PollDelay::kFewest);
  delay.learn(0);
  delay.learn(0);
  EXPECT_EQ(delay.pauses(), 0U);
  delay.learn(1);
  EXPECT_EQ(delay.pauses(), 1U) << "the message was not there";
  delay.learn(1);
  EXPECT_EQ(delay.pauses(), 1U);
}

TEST(PollDelay, RanksThatShareACoreHaveNone) {
  PollDelay none(false);
  none.learn(20);
  EXPECT_EQ(none.pauses(), 0U);
}

TEST(Ladder, ContentionThatStaysIsRememberedLongerEachTime) {
  CoreContention contention(1);
  Clock::time_point now = Clock::now();
  const auto next = [&] {  // it yields again as soon as it has forgotten
    contention.yielded(now, now + CoreContention::kSlowYield);
    const Clock::time_point begin = now + CoreContention::kSlowYield;
    for (now = begin; contention.is_expected(now);) now += std::chrono::milliseconds{1};
    return now - begin;
  };
  EXPECT_EQ(next(), CoreContention::kFirstMemory);
  EXPECT_EQ(next(), 2 * CoreContention::kFirstMemory);
  EXPECT_EQ(next(), 4 * CoreContention::kFirstMemory);
  for (int i = 0; i < 20; ++i) next();
  EXPECT_EQ(next(), CoreContention::kLongestMemory);
  const auto yield_fast = [&](int times) {
    for (int i = 0; i < times; ++i) contention.yielded(now, now + std::chrono::microseconds{1});
  };
  yield_fast(CoreContention::kFew - 1);
  EXPECT_EQ(next(), CoreContention::kLongestMemory) << "it may run in turns with others";
  yield_fast(CoreContention::kFew);
  EXPECT_EQ(next(), CoreContention::kFirstMemory) << "it was gone meanwhile";
}

// A rank that computes before each of its calls does not keep the others from yielding in the calls: neither in bursts
// of many calls soon after one another, nor in a few calls now and then, which the memory covers.
TEST(Ladder, SlowYieldsThatFastOnesOrTimeDivideAreNotAddedUp) {
  for (const auto& [fast, rest] : {std::pair{100, 0ms}, {0, 100ms}}) {
    CoreContention contention(4);
    Clock::time_point now = Clock::now();
    for (int phase = 0; phase < 100; ++phase) {
      contention.yielded(now, now + 5ms);
      now += 5ms;
      EXPECT_TRUE(contention.is_expected(now));
      now += CoreContention::kFirstMemory;
      EXPECT_FALSE(contention.is_expected(now)) << "after phase " << phase;
      for (int i = 0; i < fast; ++i) contention.yielded(now, now + 2us);
      now += rest;
    }
  }
}

TEST(Deadline, NeverAndPassed) {
  EXPECT_TRUE(Deadline::in(0).is_never());
  EXPECT_TRUE(Deadline::in(-1).is_never());
  EXPECT_TRUE(Deadline::in(__builtin_nan("")).is_never());
  EXPECT_FALSE(Deadline::never().passed());
  EXPECT_EQ(Deadline::never().left(std::chrono::seconds{3}), std::chrono::seconds{3});
  EXPECT_TRUE(Deadline::in(1e-9).passed());
  EXPECT_EQ(Deadline::in(1e-9).left(std::chrono::seconds{3}), std::chrono::nanoseconds{0});
  EXPECT_FALSE(Deadline::in(100).passed());
}

}  // namespace
}  // namespace tutti::test
