// Covers comm/join/dial_pause.h.
// Ranks of a large job do not dial all at once.
#include "comm/join/dial_pause.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

using std::chrono::microseconds;

constexpr int kRanks = 100'512;

TEST(DialPause, TheFirst512DialAtOnceAndTheOthersOneAfterTheOther) {
  constexpr std::chrono::hours kForEver{1000};
  EXPECT_EQ(dial_pause(Rank{0}, kRanks, kForEver), microseconds{0});
  EXPECT_EQ(dial_pause(Rank{512}, kRanks, kForEver), microseconds{0});
  EXPECT_EQ(dial_pause(Rank{513}, kRanks, kForEver), microseconds{100});
  EXPECT_EQ(dial_pause(Rank{10'512}, kRanks, kForEver), std::chrono::seconds{1});
  EXPECT_EQ(dial_pause(Rank{1}, 2, kForEver), microseconds{0});
}

TEST(DialPause, AllHaveDialledInHalfOfTheTimeThatIsLeft) {
  constexpr std::chrono::seconds kLeft{4};  // all of them would take 10 s
  EXPECT_EQ(dial_pause(Rank{512}, kRanks, kLeft), microseconds{0});
  EXPECT_EQ(dial_pause(Rank{513}, kRanks, kLeft), microseconds{20});
  EXPECT_LE(dial_pause(Rank{kRanks - 1}, kRanks, kLeft), kLeft / 2);
  EXPECT_EQ(dial_pause(Rank{kRanks - 1}, kRanks, std::chrono::seconds{0}), microseconds{0});
}

}  // namespace
}  // namespace tutti
