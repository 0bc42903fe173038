// Covers comm/join/rank_places.cc.
#include "comm/join/rank_places.h"

#include <gtest/gtest.h>

#include <string>

namespace tutti {
namespace {

/// A rank on this host, of the process with this number.
Member member(int rank, const std::string& host, int process, const std::string& cores = "0-1") {
  Member made;
  made.rank = Rank{rank};
  made.process[0] = static_cast<std::byte>(process);
  made.host = std::make_shared<const MemberHost>(MemberHost{.id = host, .boot_id = 1});
  made.resources = std::make_shared<const MemberResources>(MemberResources{.cores = cores, .segment_bytes = 4096});
  return made;
}

TEST(RankPlaces, RanksWithOneHostIdShareAHost) {
  const std::vector<Member> members{member(0, "b", 1), member(1, "a", 2), member(2, "b", 1), member(3, "a", 3)};
  EXPECT_EQ(hosts_of(MemberList(members), {}), (std::vector<int>{0, 1, 0, 1}));
  std::vector<Member> same = members;
  for (Member& each : same) each.host = members[0].host;  // as in a table that was read
  EXPECT_EQ(hosts_of(MemberList(same), {}), (std::vector<int>{0, 0, 0, 0}));
}

TEST(RankPlaces, WhereOneCannotMapTheMemoryOnlyRanksOfAProcessShareAHost) {
  const std::vector<Member> members{member(0, "a", 1), member(1, "a", 2), member(2, "a", 1), member(3, "b", 3),
                                    member(4, "b", 4)};
  EXPECT_EQ(hosts_of(MemberList(members), {Rank{1}}), (std::vector<int>{0, 1, 0, 2, 2}));
  EXPECT_EQ(hosts_of(MemberList(members), {Rank{99}, Rank{-1}}),
            (std::vector<int>{0, 0, 0, 1, 1}));  // a go message may say anything
}

TEST(RankPlaces, ARankWithoutMemoryIsAHostOfItsOwn) {
  std::vector<Member> members{member(0, "a", 1), member(1, "a", 1), member(2, "a", 1), member(3, "a", 1)};
  members[1].resources = members[2].resources = MemberResources::unknown();
  EXPECT_EQ(hosts_of(MemberList(members), {}), (std::vector<int>{0, 1, 2, 0}));
}

TEST(RankPlaces, ProcessesAreNumberedByTheirLowestRanks) {
  const std::vector<Member> members{member(0, "b", 9), member(1, "a", 2), member(2, "b", 5), member(3, "a", 2)};
  const MemberList list(members);
  EXPECT_EQ(processes_of(ProcessOrder(list, 32), list.size()), (std::vector<int>{0, 1, 2, 1}));
}

TEST(RankPlaces, HostIdsAreCompared) {
  const std::vector<Member> same{member(0, "a", 1, "0"), member(1, "a", 2, "1")};
  const std::vector<Member> different{member(0, "a", 1, "0"), member(1, "b", 2, "0")};
  EXPECT_TRUE(have_one_host_id(MemberList(same)));
  EXPECT_FALSE(have_one_host_id(MemberList(different)));
}

TEST(RankPlaces, CoresCountWhereTheBootIsTheSame) {
  std::vector<Member> members{member(0, "a", 1, "0"), member(1, "a", 2, "1"), member(2, "a", 3, "2-5")};
  const MemberList few(members);
  EXPECT_EQ(ranks_of_same_boot(few.host(Rank{0}), few), 3);
  EXPECT_EQ(cores_of_same_boot(Rank{0}, few), 6);
  EXPECT_EQ(ranks_per_core_of(few), 1);
  std::vector<Member> crowd;
  for (int rank = 0; rank < 10; ++rank) crowd.push_back(member(rank, "a", rank));
  EXPECT_EQ(cores_of_same_boot(Rank{3}, MemberList(crowd)), 2);
  EXPECT_EQ(ranks_per_core_of(MemberList(crowd)), 5);
  crowd[9] = member(9, "a", 9, "");
  EXPECT_EQ(ranks_per_core_of(MemberList(crowd)), 1) << "the cores of one are not known";
  crowd[9] = member(9, "a", 9);
  MemberHost other = *crowd[9].host;
  other.boot_id = 2;
  crowd[9].host = std::make_shared<const MemberHost>(other);
  EXPECT_EQ(ranks_of_same_boot(*crowd[0].host, MemberList(crowd)), 9);
  EXPECT_EQ(ranks_of_same_boot(other, MemberList(crowd)), 1);
  EXPECT_EQ(ranks_per_core_of(MemberList(crowd)), 1);
}

}  // namespace
}  // namespace tutti
