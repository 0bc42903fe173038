// Covers transport/shm/rank_segments.h.
#include "transport/shm/rank_segments.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

std::shared_ptr<Segment> make_segment() {
  std::shared_ptr<Segment> segment;
  EXPECT_TRUE(Segment::create(Bytes(4096), &segment).ok());
  return segment;
}

TEST(RankSegments, HaveTheMemoryOfTheRanksThatWereAdded) {
  const auto third = make_segment(), ninth = make_segment();
  RankSegments segments;
  EXPECT_EQ(segments.of(Rank{0}), nullptr);
  segments.add(Rank{3}, third);
  segments.add(Rank{9}, ninth);
  EXPECT_EQ(segments.of(Rank{3}), third);
  EXPECT_EQ(segments.of(Rank{9}), ninth);
  for (const int other : {0, 2, 4, 8, 10}) EXPECT_EQ(segments.of(Rank{other}), nullptr) << other;
}

TEST(RankSegments, LetGoOfWhatIsNotKept) {
  const auto third = make_segment(), ninth = make_segment();
  RankSegments segments;
  segments.add(Rank{3}, third);
  segments.add(Rank{9}, ninth);
  RankSegments copy = segments;
  copy.keep_only([](Rank rank) { return rank == Rank{9}; });
  EXPECT_EQ(copy.of(Rank{3}), nullptr);
  EXPECT_EQ(copy.of(Rank{9}), ninth);
  EXPECT_EQ(segments.of(Rank{3}), third) << "a copy is another value";
  segments.keep_only([](Rank) { return false; });
  EXPECT_EQ(third.use_count(), 1);
}

}  // namespace
}  // namespace tutti
