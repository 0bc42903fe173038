// Covers comm/membership/finalize_tree.h.
#include "comm/membership/finalize_tree.h"

#include <gtest/gtest.h>

#include <vector>

namespace tutti {
namespace {

/// Processes of two ranks each on one host.
class FinalizeTreeTest : public testing::Test {
 protected:
  static MemberList members_of(std::size_t processes) {
    std::vector<Member> members(2 * processes);
    for (std::size_t i = 0; i < members.size(); ++i) {
      members[i].rank = Rank{static_cast<std::int32_t>(i)};
      members[i].process[0] = static_cast<std::byte>(i / 2);
    }
    return MemberList(members);
  }
  const MemberList members_ = members_of(8);
  const ProcessOrder order_{members_, 0};
};

TEST_F(FinalizeTreeTest, IsCompleteWhenOwnRanksAndChildrenHaveCome) {
  FinalizeTree tree(order_, 4);  // its children are 5 and 6
  EXPECT_TRUE(tree.come(Rank{8}, 40));
  EXPECT_TRUE(tree.come_below(6, 40));
  EXPECT_TRUE(tree.come(Rank{9}, 40));
  EXPECT_EQ(tree.complete(), 0u);
  EXPECT_TRUE(tree.come_below(5, 40));
  EXPECT_EQ(tree.complete(), 40u);
}

TEST_F(FinalizeTreeTest, CountsNobodyTwiceAndNoStranger) {
  FinalizeTree tree(order_, 6);  // its child is 7
  EXPECT_TRUE(tree.come(Rank{12}, 40));
  EXPECT_FALSE(tree.come(Rank{12}, 40));
  EXPECT_FALSE(tree.come(Rank{14}, 40));
  EXPECT_FALSE(tree.come_below(5, 40));
  EXPECT_TRUE(tree.come_below(7, 40));
  EXPECT_FALSE(tree.come_below(7, 41));
  EXPECT_EQ(tree.complete(), 0u);
  EXPECT_TRUE(tree.come(Rank{13}, 40));
  EXPECT_EQ(tree.complete(), 40u);
}

TEST_F(FinalizeTreeTest, IsNeverCompleteWithDifferentNumbers) {
  FinalizeTree tree(order_, 7);
  EXPECT_TRUE(tree.come(Rank{14}, 40));
  EXPECT_TRUE(tree.come(Rank{15}, 41));
  EXPECT_EQ(tree.complete(), 0u);
}

TEST_F(FinalizeTreeTest, HearsOnceThatAllHaveCome) {
  FinalizeTree tree(order_, 7);
  EXPECT_EQ(tree.all(), 0u);
  EXPECT_TRUE(tree.set_all(40));
  EXPECT_FALSE(tree.set_all(40));
  EXPECT_EQ(tree.all(), 40u);
}

}  // namespace
}  // namespace tutti
