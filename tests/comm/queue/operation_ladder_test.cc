// Covers OperationLadder of comm/queue/operation.cc.
#include <gtest/gtest.h>

#include <chrono>

#include "comm/queue/operation.h"
#include "core/clock.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

/// A ladder on which nothing has moved for so long.
OperationLadder ladder_after(milliseconds time) {
  OperationLadder ladder;
  for (const auto end = Clock::now() + time; Clock::now() < end;) (void)ladder.climb(false);
  (void)ladder.climb(false);  // so that it has seen that the time is over
  return ladder;
}

TEST(OperationLadder, NapsOfALoneRankStayShort) {
  EXPECT_EQ(OperationLadder().nap(milliseconds(1), 1), milliseconds(1));
  EXPECT_EQ(ladder_after(milliseconds(50)).nap(milliseconds(1), 1), milliseconds(1));
}

// If each of hundreds of ranks looked every millisecond, none of them would get to its work.
TEST(OperationLadder, NapsOfManyRanksOnACoreGrowWithTheWait) {
  EXPECT_EQ(OperationLadder().nap(milliseconds(1), 300), milliseconds(1)) << "at first as short as alone";
  const OperationLadder late = ladder_after(milliseconds(50));
  EXPECT_GT(late.nap(milliseconds(1), 300), milliseconds(5)) << "about an eighth of the wait";
  EXPECT_EQ(late.nap(milliseconds(1), 40), milliseconds(2)) << "50 us for each rank";
  EXPECT_EQ(ladder_after(milliseconds(300)).nap(milliseconds(1), 1000), milliseconds(20)) << "an abort waits for it";
}

TEST(OperationLadder, NapsAreShortAgainOnceSomethingMoves) {
  OperationLadder ladder = ladder_after(milliseconds(50));
  (void)ladder.climb(true);
  (void)ladder.climb(false);
  EXPECT_EQ(ladder.nap(milliseconds(1), 300), milliseconds(1));
}

}  // namespace
}  // namespace tutti
