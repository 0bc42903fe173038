// Covers comm/messages/member.cc.
// A table has hosts and resources once each, in one order, so that equal tables are equal bytes.
#include "comm/messages/member.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/messages/messages.h"
#include "support/equal_members.h"

namespace tutti {
namespace {

/// A member that says by itself where it is and what it may use, as in a join.
Member joining_member(int rank, const std::string& host_id, const std::string& cores) {
  Member made;
  made.rank = Rank{rank};
  made.pid = static_cast<std::uint32_t>(1000 + rank);
  made.process[5] = static_cast<std::byte>(rank);
  made.host = std::make_shared<const MemberHost>(
      MemberHost{.name = "node", .id = host_id, .boot_id = 77, .addresses = {{}, {.family = 6, .bytes = {}}}});
  made.resources =
      std::make_shared<const MemberResources>(MemberResources{.cores = cores, .segment_bytes = 4096, .device = "GPU"});
  made.port = static_cast<std::uint16_t>(500 + rank);
  return made;
}

/// The bytes of a table of hosts with these ids, of resources with these cores, and of members that name places there.
std::vector<std::byte> table_bytes(const std::vector<std::string>& ids, const std::vector<std::string>& cores,
                                   const std::vector<std::pair<std::uint32_t, std::uint32_t>>& places) {
  MessageWriter bytes;
  bytes.u64(99);
  bytes.u32(static_cast<std::uint32_t>(ids.size()));
  for (const std::string& id : ids) {
    bytes.text("");
    bytes.text(id);
    bytes.u64(0);
    bytes.u32(0);  // addresses
  }
  bytes.u32(static_cast<std::uint32_t>(cores.size()));
  for (const std::string& list : cores) {
    bytes.text(list);
    bytes.u64(0);
    bytes.text("");
  }
  bytes.u32(static_cast<std::uint32_t>(places.size()));
  for (const auto& [host, resources] : places) {
    bytes.u32(host);
    bytes.u32(resources);
    bytes.u32(4711);
    bytes.bytes(ProcessId{});
    bytes.u16(500);
  }
  return bytes.data();
}

bool is_table(const std::vector<std::string>& ids, const std::vector<std::string>& cores,
              const std::vector<std::pair<std::uint32_t, std::uint32_t>>& places) {
  TableMessage read;
  return decode(table_bytes(ids, cores, places), &read).ok();
}

using test::expect_equal;

// Thousands of ranks are on few hosts, and each is bound to cores of its own.
TEST(MemberListFields, HaveEachHostAndEachResourcesOnce) {
  TableMessage table;
  for (int i = 0; i < 100; ++i)
    table.members.push_back(joining_member(i, "host " + std::to_string(i / 10), "core " + std::to_string(i % 10)));
  const std::vector<std::byte> bytes = encode(table);
  TableMessage read;
  ASSERT_TRUE(decode(bytes, &read).ok());
  ASSERT_EQ(read.members.size(), table.members.size());
  for (std::size_t i = 0; i < 100; ++i) {
    expect_equal(read.members[i], table.members[i]);
    EXPECT_EQ(read.members[i].host, read.members[i / 10 * 10].host) << i << ": it is there once";
    EXPECT_EQ(read.members[i].resources, read.members[i % 10].resources) << i;
  }
  EXPECT_EQ(encode(read), bytes);
}

TEST(MemberListFields, HaveOneHostForMembersWithDifferentCores) {
  TableMessage table;
  table.members = {joining_member(0, "a", "0"), joining_member(1, "a", "1")};
  TableMessage read;
  ASSERT_TRUE(decode(encode(table), &read).ok());
  EXPECT_EQ(read.members[0].host, read.members[1].host);
  EXPECT_EQ(read.members[0].resources->cores, "0");
  EXPECT_EQ(read.members[1].resources->cores, "1");
}

TEST(MemberListFields, TellPartsApartThatDifferInOneValue) {
  const Member first = joining_member(0, "a", "0");
  const auto are_two = [&](const Member& second) {
    TableMessage table, read;
    table.members = {first, second};
    EXPECT_TRUE(decode(encode(table), &read).ok());
    expect_equal(read.members.at(1), second);
    return read.members[0].host != read.members[1].host || read.members[0].resources != read.members[1].resources;
  };
  EXPECT_FALSE(are_two(joining_member(1, "a", "0")));
  EXPECT_TRUE(are_two(joining_member(1, "b", "0")));
  EXPECT_TRUE(are_two(joining_member(1, "a", "1")));
  const auto with = [&](auto part, auto change) {
    Member member = joining_member(1, "a", "0");
    auto changed = *(member.*part);
    change(changed);
    member.*part = std::make_shared<const decltype(changed)>(changed);
    return member;
  };
  EXPECT_TRUE(are_two(with(&Member::host, [](MemberHost& host) { host.name = "other"; })));
  EXPECT_TRUE(are_two(with(&Member::host, [](MemberHost& host) { host.boot_id = 78; })));
  EXPECT_TRUE(are_two(with(&Member::host, [](MemberHost& host) { host.addresses.pop_back(); })));
  EXPECT_TRUE(are_two(with(&Member::resources, [](MemberResources& resources) { resources.segment_bytes = 0; })));
  EXPECT_TRUE(are_two(with(&Member::resources, [](MemberResources& resources) { resources.device.clear(); })));
}

TEST(MemberListFields, AreReadInOneWritingOnly) {
  EXPECT_TRUE(is_table({"a", "b"}, {"0", "1"}, {{0, 0}, {1, 1}, {0, 1}, {1, 0}}));
  EXPECT_TRUE(is_table({}, {}, {}));
  EXPECT_FALSE(is_table({"a", "a"}, {"0"}, {{0, 0}, {1, 0}})) << "a host comes twice";
  EXPECT_FALSE(is_table({"a"}, {"0", "0"}, {{0, 0}, {0, 1}})) << "resources come twice";
  EXPECT_FALSE(is_table({"a", "b"}, {"0"}, {{1, 0}, {0, 0}})) << "hosts are out of order";
  EXPECT_FALSE(is_table({"a"}, {"0", "1"}, {{0, 1}, {0, 0}})) << "resources are out of order";
  EXPECT_FALSE(is_table({"a", "b"}, {"0"}, {{0, 0}, {0, 0}})) << "nobody is on a host";
  EXPECT_FALSE(is_table({"a"}, {"0", "1"}, {{0, 0}, {0, 0}})) << "nobody has resources";
  EXPECT_FALSE(is_table({"a"}, {}, {})) << "there is a host without members";
  EXPECT_FALSE(is_table({}, {"0"}, {})) << "there are resources without members";
}

TEST(MemberListFields, NameNoPartThatIsNotThere) {
  for (const std::uint32_t place : {1u, 2u, 0x7fffffffu, 0xffffffffu}) {
    EXPECT_FALSE(is_table({"a"}, {"0"}, {{0, 0}, {place, 0}})) << place;
    EXPECT_FALSE(is_table({"a"}, {"0"}, {{0, 0}, {0, place}})) << place;
  }
  EXPECT_FALSE(is_table({}, {"0"}, {{0, 0}}));
  EXPECT_FALSE(is_table({"a"}, {}, {{0, 0}}));
}

TEST(MemberListFields, HaveAtMostSoManyRanks) {
  TableMessage table;
  table.members.assign(kMaxRanks, joining_member(0, "a", "0"));
  std::vector<std::byte> bytes = encode(table);
  TableMessage read;
  ASSERT_TRUE(decode(bytes, &read).ok());
  ASSERT_EQ(read.members.size(), 131'072u);
  EXPECT_EQ(read.members.back().rank, Rank{kMaxRanks - 1});
  EXPECT_EQ(read.members.back().host, read.members.front().host);
  table.members.pop_back();
  const std::size_t member_bytes = bytes.size() - encode(table).size();
  const std::vector<std::byte> last(bytes.end() - static_cast<std::ptrdiff_t>(member_bytes), bytes.end());
  const std::size_t count = bytes.size() - kMaxRanks * member_bytes - 4;  // it stands before the members
  EXPECT_EQ(bytes[count], std::byte{0});
  bytes[count] = std::byte{1};
  bytes.insert(bytes.end(), last.begin(), last.end());
  EXPECT_FALSE(decode(bytes, &read).ok());
}

TEST(MemberFields, RefuseARankThatNoJoinHas) {
  const auto is_read = [](std::int32_t rank) {
    TableSourceMessage read;
    return decode(encode(TableSourceMessage{joining_member(rank, "a", "0")}), &read).ok();
  };
  EXPECT_TRUE(is_read(0));
  EXPECT_TRUE(is_read(kMaxRanks - 1));
  EXPECT_FALSE(is_read(kMaxRanks));
  EXPECT_FALSE(is_read(-1));
}

// Sums of them must not overflow.
TEST(MemberFields, RefuseMoreMemoryThanAnAddressSpaceHas) {
  for (const std::uint64_t bytes : {std::uint64_t{1} << 46, (std::uint64_t{1} << 46) + 1, ~std::uint64_t{0}}) {
    Member member = joining_member(0, "a", "0");
    member.resources = std::make_shared<const MemberResources>(MemberResources{.segment_bytes = bytes});
    TableMessage table, read_table;
    table.members.push_back(member);
    TableSourceMessage read_source;
    EXPECT_EQ(decode(encode(table), &read_table).ok(), bytes == std::uint64_t{1} << 46);
    EXPECT_EQ(decode(encode(TableSourceMessage{member}), &read_source).ok(), bytes == std::uint64_t{1} << 46);
  }
}

}  // namespace
}  // namespace tutti
