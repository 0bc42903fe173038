// Covers comm/membership/member_list.cc.
#include "comm/membership/member_list.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace tutti {
namespace {

/// A member that differs from others in all it has.
Member member(int rank, const std::string& host, std::uint64_t segment_bytes, const std::string& device) {
  Member made;
  made.rank = Rank{rank};
  made.pid = static_cast<std::uint32_t>(100 + rank);
  made.process[3] = static_cast<std::byte>(rank);
  made.host = std::make_shared<const MemberHost>(MemberHost{.name = host + " name", .id = host, .cores = "0-3"});
  made.segment_bytes = segment_bytes;
  if (!device.empty()) made.device = std::make_shared<const std::string>(device);
  made.port = static_cast<std::uint16_t>(60000 + rank);
  return made;
}

TEST(MemberList, MembersComeBackAsTheyWere) {
  const std::vector<Member> members{member(0, "b", 4096, ""), member(1, "a", 0, "gpu 1"), member(2, "b", 4096, "gpu 0"),
                                    member(3, "a", std::uint64_t{1} << 40, "gpu 1")};
  const MemberList list(members);
  ASSERT_EQ(list.size(), members.size());
  for (const Member& wanted : members) {
    const Member found = list[wanted.rank];
    EXPECT_EQ(found.rank, wanted.rank);
    EXPECT_EQ(found.pid, wanted.pid);
    EXPECT_EQ(found.process, wanted.process);
    EXPECT_EQ(*found.host, *wanted.host);
    EXPECT_EQ(found.segment_bytes, wanted.segment_bytes);
    EXPECT_EQ(found.device == nullptr, wanted.device == nullptr);
    EXPECT_EQ(list.device(wanted.rank), wanted.device ? *wanted.device : "");
    EXPECT_EQ(found.port, wanted.port);
    EXPECT_EQ(list.process(wanted.rank), wanted.process);
    EXPECT_EQ(list.host(wanted.rank), *wanted.host);
    EXPECT_EQ(list.segment_bytes(wanted.rank), wanted.segment_bytes);
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

}  // namespace
}  // namespace tutti
