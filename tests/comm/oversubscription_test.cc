// Covers comm/join/oversubscription.cc.
#include "comm/join/oversubscription.h"

#include <gtest/gtest.h>

#include <optional>

namespace tutti {
namespace {

TEST(Oversubscription, MoreRanksThanCores) {
  EXPECT_FALSE(Oversubscription(2, 2).oversubscribed());
  EXPECT_TRUE(Oversubscription(3, 2).oversubscribed());
  EXPECT_FALSE(Oversubscription().oversubscribed());
}

// Eight ranks on two cores, split in pairs: the pairs take the cores from each other.
TEST(Oversubscription, PartsOfACrowdAreCrowded) {
  std::optional<Oversubscription> whole(std::in_place, 8, 2);
  std::optional<Oversubscription> part(std::in_place, 2, 2);
  EXPECT_TRUE(part->oversubscribed());
  whole.reset();
  EXPECT_FALSE(Oversubscription(2, 2).oversubscribed()) << "the crowd has gone; a part does not stand for it";
}

TEST(Oversubscription, LastsAsLongAsOneOfThem) {
  std::optional<Oversubscription> one(std::in_place, 3, 2), other(std::in_place, 4, 2);
  one.reset();
  EXPECT_TRUE(Oversubscription(1, 2).oversubscribed());
  other.reset();
  EXPECT_FALSE(Oversubscription(1, 2).oversubscribed());
}

}  // namespace
}  // namespace tutti
