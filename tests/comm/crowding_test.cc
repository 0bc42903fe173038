#include "comm/crowding.h"

#include <gtest/gtest.h>

#include <optional>

namespace tutti {
namespace {

TEST(Crowding, MoreRanksThanCores) {
  EXPECT_FALSE(Crowding(2, 2).crowded());
  EXPECT_TRUE(Crowding(3, 2).crowded());
  EXPECT_FALSE(Crowding().crowded());
}

// Eight ranks on two cores, split in pairs: the pairs take the cores from each other.
TEST(Crowding, PartsOfACrowdAreCrowded) {
  std::optional<Crowding> whole(std::in_place, 8, 2);
  std::optional<Crowding> part(std::in_place, 2, 2);
  EXPECT_TRUE(part->crowded());
  whole.reset();
  EXPECT_FALSE(Crowding(2, 2).crowded()) << "the crowd has gone; a part does not stand for it";
}

TEST(Crowding, LastsAsLongAsOneOfThem) {
  std::optional<Crowding> one(std::in_place, 3, 2), other(std::in_place, 4, 2);
  one.reset();
  EXPECT_TRUE(Crowding(1, 2).crowded());
  other.reset();
  EXPECT_FALSE(Crowding(1, 2).crowded());
}

}  // namespace
}  // namespace tutti
