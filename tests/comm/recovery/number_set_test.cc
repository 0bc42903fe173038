// Covers comm/recovery/number_set.h.
#include "comm/recovery/number_set.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

NumberSet numbers_of(const std::vector<std::size_t>& numbers) {
  NumberSet set;
  for (const std::size_t number : numbers) set.add(number);
  return set;
}

TEST(NumberSet, AddsAndRemoves) {
  NumberSet set;
  EXPECT_TRUE(set.empty());
  EXPECT_TRUE(set.add(3));
  EXPECT_FALSE(set.add(3));
  EXPECT_TRUE(set.add(Rank{64}));
  EXPECT_TRUE(set.has(3));
  EXPECT_TRUE(set.has(Rank{64}));
  EXPECT_FALSE(set.has(4));
  EXPECT_FALSE(set.has(100000));
  EXPECT_EQ(set.size(), 2u);
  set.remove(100000);
  set.remove(Rank{64});
  EXPECT_EQ(set, numbers_of({3}));
  set.remove(3);
  EXPECT_TRUE(set.empty());
}

TEST(NumberSet, IsEqualHoweverItWasMade) {
  NumberSet set = numbers_of({1, 200});
  set.remove(200);
  EXPECT_EQ(set, numbers_of({1}));
  EXPECT_EQ(set.words().size(), 1u);
  EXPECT_EQ(numbers_of({1, 200}) - numbers_of({200}), numbers_of({1}));
  EXPECT_EQ(numbers_of({1, 200}) & numbers_of({1, 100}), numbers_of({1}));
}

TEST(NumberSet, CalculatesWithSetsOfOtherLengths) {
  const NumberSet low = numbers_of({0, 63});
  const NumberSet high = numbers_of({63, 64, 130});
  EXPECT_EQ(low | high, numbers_of({0, 63, 64, 130}));
  EXPECT_EQ(high | low, low | high);
  EXPECT_EQ(low - high, numbers_of({0}));
  EXPECT_EQ(high - low, numbers_of({64, 130}));
  EXPECT_EQ(low & high, numbers_of({63}));
  EXPECT_TRUE(low.meets(high));
  EXPECT_FALSE(numbers_of({0}).meets(high));
  EXPECT_FALSE(NumberSet().meets(high));
  EXPECT_TRUE((low | high).contains(high));
  EXPECT_FALSE(low.contains(high));
  EXPECT_TRUE(low.contains(NumberSet()));
}

TEST(NumberSet, ListsAscending) {
  EXPECT_EQ(numbers_of({130, 0, 64}).ranks(), (std::vector<Rank>{Rank{0}, Rank{64}, Rank{130}}));
  EXPECT_TRUE(NumberSet().ranks().empty());
}

}  // namespace
}  // namespace tutti
