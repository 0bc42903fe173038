// Covers comm/membership/member_list.cc.
#include "comm/membership/member_list.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "support/equal_members.h"

namespace tutti {
namespace {

/// A member that differs from others in all it has.
Member member(int rank, const std::string& host, std::uint64_t segment_bytes, const std::string& device,
              const std::string& cores = "0-3") {
  Member made;
  made.rank = Rank{rank};
  made.pid = static_cast<std::uint32_t>(100 + rank);
  made.process[3] = static_cast<std::byte>(rank);
  made.host = std::make_shared<const MemberHost>(MemberHost{.name = host + " name", .id = host});
  made.resources = std::make_shared<const MemberResources>(
      MemberResources{.cores = cores, .segment_bytes = segment_bytes, .device = device});
  made.port = static_cast<std::uint16_t>(60000 + rank);
  return made;
}

TEST(MemberList, MembersComeBackAsTheyWere) {
  const std::vector<Member> members{member(0, "b", 4096, ""), member(1, "a", 0, "gpu 1"), member(2, "b", 4096, "gpu 0"),
                                    member(3, "a", std::uint64_t{1} << 40, "gpu 1"), member(4, "a", 0, "gpu 1", "")};
  const MemberList list(members);
  ASSERT_EQ(list.size(), members.size());
  for (const Member& wanted : members) {
    const Member found = list[wanted.rank];
    test::expect_equal(found, wanted);
    EXPECT_EQ(list.process(wanted.rank), wanted.process);
    EXPECT_EQ(list.host(wanted.rank), *wanted.host);
    EXPECT_EQ(list.segment_bytes(wanted.rank), wanted.resources->segment_bytes);
    EXPECT_EQ(list.device(wanted.rank), wanted.resources->device);
    EXPECT_EQ(list.cores(wanted.rank), wanted.resources->cores);
  }
}

TEST(MemberList, EqualHostsHaveOneNumber) {
  const MemberList list({member(0, "b", 1, ""), member(1, "a", 1, ""), member(2, "b", 1, ""), member(3, "c", 1, "")});
  ASSERT_EQ(list.hosts(), 3u);
  EXPECT_EQ(list.host_number(Rank{0}), 0u);
  EXPECT_EQ(list.host_number(Rank{1}), 1u);
  EXPECT_EQ(list.host_number(Rank{2}), 0u);
  EXPECT_EQ(list.host_number(Rank{3}), 2u);
  EXPECT_EQ(list.host_with_number(1).id, "a");
  EXPECT_EQ(&list.host(Rank{0}), &list.host(Rank{2})) << "it is kept once";
}

TEST(MemberList, RanksOfAHostThatAreBoundToCoresShareIt) {
  const MemberList list({member(0, "a", 1, "", "0"), member(1, "a", 1, "", "1"), member(2, "b", 1, "", "0")});
  EXPECT_EQ(list.hosts(), 2u);
  EXPECT_EQ(&list.host(Rank{0}), &list.host(Rank{1}));
  EXPECT_EQ(list.cores(Rank{0}), "0");
  EXPECT_EQ(list.cores(Rank{1}), "1");
  EXPECT_EQ(&list.cores(Rank{0}), &list.cores(Rank{2})) << "they are kept once";
}

// More hosts than a number of 16 bits can tell apart.
TEST(MemberList, EachRankMayHaveAHostOfItsOwn) {
  std::vector<Member> members(kMaxRanks);
  for (int rank = 0; rank < kMaxRanks; ++rank)
    members[static_cast<std::size_t>(rank)].host =
        std::make_shared<const MemberHost>(MemberHost{.id = std::to_string(rank)});
  const MemberList list(members);
  ASSERT_EQ(list.hosts(), 131'072u);
  for (const int rank : {0, 1, 65'535, 65'536, kMaxRanks - 1}) {
    EXPECT_EQ(list.host_number(Rank{rank}), static_cast<std::size_t>(rank));
    EXPECT_EQ(list.host(Rank{rank}).id, std::to_string(rank));
  }
}

}  // namespace
}  // namespace tutti
