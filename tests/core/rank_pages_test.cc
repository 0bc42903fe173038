// Covers core/rank_pages.h.
#include "core/rank_pages.h"

#include <gtest/gtest.h>

#include <atomic>

namespace tutti {
namespace {

TEST(RankPages, EntriesAreMadeOnceAndStay) {
  RankPages<std::atomic<int>> pages(130);
  EXPECT_EQ(pages.ranks(), 130);
  EXPECT_EQ(pages.find(Rank{129}), nullptr);
  std::atomic<int>& last = pages.make(Rank{129});
  EXPECT_EQ(last.load(), 0);
  last.store(7);
  EXPECT_EQ(&pages.make(Rank{129}), &last);
  ASSERT_NE(pages.find(Rank{128}), nullptr) << "it is of the same page";
  EXPECT_EQ(pages.find(Rank{128})->load(), 0);
  EXPECT_EQ(pages.find(Rank{127}), nullptr);
  pages.make(Rank{0}).store(5);
  EXPECT_EQ(pages.find(Rank{129})->load(), 7);
}

}  // namespace
}  // namespace tutti
