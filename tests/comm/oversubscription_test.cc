// Covers comm/join/oversubscription.cc.
#include "comm/join/oversubscription.h"

#include <gtest/gtest.h>

#include <optional>

namespace tutti {
namespace {

TEST(Oversubscription, MoreRanksThanCores) {
  EXPECT_EQ(Oversubscription(2, 2).ranks_per_core(), 1);
  EXPECT_EQ(Oversubscription(3, 2).ranks_per_core(), 2);
  EXPECT_EQ(Oversubscription(64, 2).ranks_per_core(), 32);
  EXPECT_EQ(Oversubscription().ranks_per_core(), 1);
}

// Eight ranks on two cores, split in pairs: the pairs take the cores from each other.
TEST(Oversubscription, PartsOfACrowdAreCrowded) {
  std::optional<Oversubscription> whole(std::in_place, 8, 2);
  std::optional<Oversubscription> part(std::in_place, 2, 2);
  EXPECT_EQ(part->ranks_per_core(), 4) << "as the whole";
  whole.reset();
  EXPECT_EQ(Oversubscription(2, 2).ranks_per_core(), 1) << "the crowd has gone; a part does not stand for it";
}

TEST(Oversubscription, TheMostCrowdedCounts) {
  const Oversubscription small(3, 2);
  std::optional<Oversubscription> large(std::in_place, 64, 2);
  EXPECT_EQ(Oversubscription(2, 2).ranks_per_core(), 32);
  EXPECT_EQ(Oversubscription(4, 2).ranks_per_core(), 32);
  large.reset();
  EXPECT_EQ(Oversubscription(2, 2).ranks_per_core(), 2);
}

TEST(Oversubscription, LastsAsLongAsOneOfThem) {
  std::optional<Oversubscription> one(std::in_place, 3, 2), other(std::in_place, 4, 2);
  one.reset();
  EXPECT_EQ(Oversubscription(1, 2).ranks_per_core(), 2);
  other.reset();
  EXPECT_EQ(Oversubscription(1, 2).ranks_per_core(), 1);
}

}  // namespace
}  // namespace tutti
