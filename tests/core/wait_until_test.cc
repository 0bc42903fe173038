// Covers core/wait_until.h: what ends a wait, and what its monitor hears.
#include "core/wait_until.h"

#include <gtest/gtest.h>

#include <chrono>

#include "support/patience.h"

namespace tutti::test {
namespace {

constexpr std::chrono::microseconds kShortNap{1};

TEST(WaitUntil, WhatIsThereNeedsNoMonitor) {
  int asked = 0;
  const auto monitor = [&](bool) {
    ++asked;
    return fail(Code::kTimeout, "asked");
  };
  EXPECT_TRUE(wait_until([] { return true; }, monitor, WaitPace::naps(std::chrono::hours{1})).ok());
  EXPECT_EQ(asked, 0);
}

TEST(WaitUntil, TheMonitorIsAskedAfterEachLookInVain) {
  int looks = 0, asked = 0;
  const auto ready = [&] { return ++looks == 5; };
  const auto monitor = [&](bool) {
    ++asked;
    EXPECT_EQ(asked, looks);
    return Status();
  };
  EXPECT_TRUE(wait_until(ready, monitor, WaitPace{kShortNap}).ok());
  EXPECT_EQ(looks, 5);
  EXPECT_EQ(asked, 4);
}

TEST(WaitUntil, AWaitInVainEndsWithWhatTheMonitorSays) {
  int asked = 0;
  const auto monitor = [&](bool) { return ++asked < 3 ? Status() : fail(Code::kRemoteError, "rank 1 died"); };
  const Status ended = wait_until([] { return false; }, monitor, WaitPace{kShortNap});
  EXPECT_EQ(ended.code(), Code::kRemoteError);
  EXPECT_EQ(ended.text(), "rank 1 died");
  EXPECT_EQ(asked, 3);
}

TEST(WaitUntil, SaysWhenItSleeps) {
  const auto sleeps_at_first = [](const WaitPace& pace) {
    bool first = false;
    const auto monitor = [&](bool sleeps) {
      first = sleeps;
      return fail(Code::kTimeout, "one look is enough");
    };
    EXPECT_FALSE(wait_until([] { return false; }, monitor, pace).ok());
    return first;
  };
  EXPECT_TRUE(sleeps_at_first(WaitPace::naps(kShortNap)));
  EXPECT_FALSE(sleeps_at_first(WaitPace::yields(std::chrono::hours{1}, kShortNap)));
  EXPECT_FALSE(sleeps_at_first(WaitPace{kShortNap})) << "the ladder begins with spins";
}

TEST(WaitUntil, ClimbsToItsNaps) {
  WaitPace pace = WaitPace::yields(std::chrono::microseconds{50}, kShortNap);
  pace.ladder.bare_spins = 3;
  int looks = 0;
  const auto monitor = [&](bool sleeps) {
    EXPECT_FALSE(sleeps && looks <= 3);
    return sleeps ? fail(Code::kAborted, "asleep") : Status();
  };
  const auto ready = [&] { return ++looks == 1'000'000'000; };
  EXPECT_EQ(wait_until(ready, monitor, pace).code(), Code::kAborted);
}

TEST(WaitUntil, ADeadlineEndsIt) {
  int looks = 0;
  const auto never = [&] {
    ++looks;
    return false;
  };
  EXPECT_FALSE(wait_until(never, Deadline::in(1e-9), WaitPace::naps(kShortNap)));
  EXPECT_GE(looks, 1);
  EXPECT_FALSE(wait_until(never, Deadline::in(1e-3), WaitPace{kShortNap}));
}

TEST(WaitUntil, WhatComesBeforeTheDeadlineIsFound) {
  int looks = 0;
  const auto third = [&] { return ++looks == 3; };
  EXPECT_TRUE(wait_until(third, Deadline::in(kFarSeconds), WaitPace::naps(kShortNap)));
  EXPECT_TRUE(wait_until([] { return true; }, Deadline::in(1e-9), WaitPace::naps(kShortNap)));
  looks = 0;
  EXPECT_TRUE(wait_until(third, Deadline::never(), WaitPace::naps(kShortNap)));
}

}  // namespace
}  // namespace tutti::test
