// Covers comm/failure/finalization.cc.
// How often ranks that leave look for each other.
#include "comm/failure/finalization.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tutti {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;

TEST(FinalizationPace, OfRanksWithCoresBeginsWithSpins) {
  for (const int ranks_per_core : {1, 2, 3}) {
    const WaitPace pace = Finalization::pace(ranks_per_core);
    EXPECT_EQ(pace.nap, milliseconds{1});
    EXPECT_GT(pace.ladder.bare_spins, 0U);
  }
}

/// A look takes up to 30 us, so 5000 of them a second are at most 15 % of a core.
TEST(FinalizationPace, OfACrowdLeavesTheCoreToThoseThatSayGoodbye) {
  for (const int ranks_per_core : {4, 32, 64, 512, 4096}) {
    const WaitPace pace = Finalization::pace(ranks_per_core);
    EXPECT_EQ(pace.ladder.bare_spins, 0U);
    EXPECT_EQ(pace.ladder.yield_for.count(), 0);
    EXPECT_GE(pace.nap, milliseconds{1});
    EXPECT_LE(pace.nap, milliseconds{100}) << "a death is noticed soon";
    const int counted = std::min(ranks_per_core, 512);
    EXPECT_LE(counted / duration<double>(pace.nap).count(), 5200) << ranks_per_core;
  }
}

}  // namespace
}  // namespace tutti
