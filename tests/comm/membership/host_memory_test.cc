// Covers comm/membership/host_memory.cc.
#include "comm/membership/host_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace tutti {
namespace {

MemberList members_with(const std::vector<std::size_t>& bytes) {
  std::vector<Member> members(bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    members[i].rank = Rank{static_cast<int>(i)};
    members[i].resources = std::make_shared<const MemberResources>(MemberResources{.segment_bytes = bytes[i]});
  }
  return MemberList(members);
}

struct Host {
  explicit Host(const std::vector<std::size_t>& bytes) {
    std::vector<Rank> ranks;
    for (Rank rank{0}; static_cast<std::size_t>(rank.value) < bytes.size(); ++rank) ranks.push_back(rank);
    const HostMemory layout(members_with(bytes), ranks);
    EXPECT_TRUE(Segment::create(layout.size(), &whole).ok());
    const RankSegments parts = layout.parts_of(whole);
    for (const Rank rank : ranks) segments.push_back(parts.of(rank));
  }
  std::shared_ptr<Segment> whole;
  std::vector<std::shared_ptr<Segment>> segments;
};

TEST(HostMemory, PartsAndFrontsDoNotOverlap) {
  const Host host({10'000, 4096, std::size_t{5} << 20, 123});
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> ranges;
  const auto add = [&](const std::byte* begin, std::size_t size) {
    const auto at = reinterpret_cast<std::uintptr_t>(begin);
    ranges.emplace_back(at, at + size);
  };
  for (const auto& segment : host.segments) {
    ASSERT_NE(segment, nullptr);
    add(segment->data(), segment->size().value);
    add(segment->front(), Segment::kFrontBytes.value);
  }
  std::sort(ranges.begin(), ranges.end());
  EXPECT_GE(ranges.front().first, reinterpret_cast<std::uintptr_t>(host.whole->data()));
  for (std::size_t i = 1; i < ranges.size(); ++i) EXPECT_LE(ranges[i - 1].second, ranges[i].first);
  EXPECT_LE(ranges.back().second, reinterpret_cast<std::uintptr_t>(host.whole->data()) + host.whole->size().value);
}

// All look at the fronts of all. If these were far apart, each process would need two pages of page tables for each.
TEST(HostMemory, FrontsLieSideBySide) {
  const Host host(std::vector<std::size_t>(100, std::size_t{1} << 30));
  for (std::size_t i = 1; i < host.segments.size(); ++i)
    EXPECT_EQ(host.segments[i]->front(), host.segments[i - 1]->front() + Segment::kFrontBytes.value);
}

TEST(HostMemory, RanksWithoutMemoryHaveNone) {
  const Host host({0, 5000, 0});
  EXPECT_EQ(host.segments[0], nullptr);
  EXPECT_EQ(host.segments[2], nullptr);
  ASSERT_NE(host.segments[1], nullptr);
  EXPECT_EQ(host.segments[1]->size().value, 5000u);
  EXPECT_EQ(HostMemory(members_with({0, 0}), {Rank{0}, Rank{1}}).size().value, 0u);
}

}  // namespace
}  // namespace tutti
