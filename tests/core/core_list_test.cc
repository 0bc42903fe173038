// Covers core/core_list.cc.
#include "core/core_list.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace tutti {
namespace {

std::vector<int> parsed(const std::string& text) {
  std::vector<int> cores;
  EXPECT_TRUE(parse_core_list(text, &cores)) << text;
  return cores;
}

int among(const std::vector<std::string_view>& lists, std::size_t own) { return cores_among(lists, own); }

TEST(CoreList, TextAndBack) {
  EXPECT_EQ(parsed("0,2-3"), (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(parsed(""), std::vector<int>{});
  EXPECT_EQ(core_list_text(std::vector<int>{0, 2, 3, 4, 7}), "0,2-4,7");
  EXPECT_EQ(core_list_text({}), "");
  EXPECT_EQ(core_list_text(std::vector<int>{0, 2, 4}, 4), "") << "too long to be told";
}

TEST(CoreList, WhatIsNoneIsRefused) {
  for (const char* text : {"x", "1-", "3-2", "-1", "0 1", "1;2", "99999", "0-99999"}) {
    std::vector<int> cores;
    EXPECT_FALSE(parse_core_list(text, &cores)) << text;
  }
}

TEST(CoreList, OfAThreadThatIsBound) {
  std::thread([] {
    const std::vector<int> all = usable_core_list();
    ASSERT_FALSE(all.empty());
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(all.back()), &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(usable_core_list(), std::vector<int>{all.back()});
  }).join();
}

// A launcher that binds each rank to a core of its own leaves none without one.
TEST(CoreList, RanksBoundApartHaveACoreEach) { EXPECT_EQ(among({"0", "1", "2"}, 1), 3); }

TEST(CoreList, RanksBoundTogetherShareIt) {
  EXPECT_EQ(among({"1", "1"}, 0), 1);
  EXPECT_EQ(among({"1", "1", "0-7"}, 0), 1);
  EXPECT_EQ(among({"1", "1", "0-7"}, 2), 8) << "the third may go elsewhere";
}

TEST(CoreList, UnboundRanksShareAll) {
  EXPECT_EQ(among({"0-1", "0-1"}, 0), 2);
  EXPECT_EQ(among({"0-1", "0-1", "0-1"}, 2), 2);
}

TEST(CoreList, WhatIsUnknownIsLeftOut) {
  EXPECT_EQ(among({"0-3", "", "nonsense"}, 0), 4);
  EXPECT_EQ(among({"", "2"}, 0), 1);
  EXPECT_EQ(among({""}, 0), 0);
}

}  // namespace
}  // namespace tutti
