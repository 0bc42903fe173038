// Covers schedule/host_map.cc, schedule/peer_list.h.
// Hosts and their ranks, and the sets of peers that steps name, as generators see them.
#include "schedule/host_map.h"

#include <gtest/gtest.h>

#include <vector>

#include "schedule/peer_list.h"
#include "schedule/step_builder.h"
#include "schedule/topologies.h"

namespace tutti {
namespace {

/// The list of a rank, which has to know where the rank stands in it.
std::vector<std::int32_t> list(std::int32_t rank, const PeerList& peers) {
  std::vector<std::int32_t> ranks;
  EXPECT_TRUE(peers.count == 0 || peers[peers.own] == rank) << rank;
  for (std::int32_t i = 0; i < peers.count; ++i) ranks.push_back(peers[i]);
  return ranks;
}

using Numbers = std::vector<std::int32_t>;

/// Calls `get` with 0, 1, ..., count - 1 and lists what it returns.
template <class Get>
Numbers of_each(std::int32_t count, const Get& get) {
  Numbers numbers;
  for (std::int32_t i = 0; i < count; ++i) numbers.push_back(get(i));
  return numbers;
}

TEST(Topology, NumbersHostsInOrderOfTheirFirstRanks) {
  const Topology topology(HostList{7, 3, 3, 7, 5, 3});
  const HostMap& map = topology.map();
  EXPECT_EQ(map.hosts, 3);
  EXPECT_EQ(map.fewest, 1);
  EXPECT_EQ(map.most, 3);
  EXPECT_EQ(of_each(6, [&](std::int32_t rank) { return map.host_of(rank); }), (Numbers{0, 1, 1, 0, 2, 1}));
  EXPECT_EQ(of_each(6, [&](std::int32_t rank) { return map.index_of(rank); }), (Numbers{0, 0, 1, 1, 0, 2}));
  EXPECT_EQ(of_each(3, [&](std::int32_t host) { return map.size_of(host); }), (Numbers{2, 3, 1}));
  EXPECT_EQ(ranks_of_host(map, 1), (Numbers{1, 2, 5}));
  EXPECT_EQ(ranks_with_index(map, 0), (Numbers{0, 1, 4}));
  EXPECT_FALSE(map.follow_one_another);
}

TEST(Topology, NeedsNoListsWhereHostsAreAlikeAndTheirRanksFollowOneAnother) {
  EXPECT_TRUE(Topology(HostList{7, 7, 3, 3, 3}).map().has_lists());
  EXPECT_TRUE(Topology(HostList{7, 3, 7, 3}).map().has_lists());
  const Topology topology(HostList{7, 7, 7, 3, 3, 3});
  const HostMap& map = topology.map();
  EXPECT_FALSE(map.has_lists());
  EXPECT_EQ(of_each(6, [&](std::int32_t rank) { return map.host_of(rank); }), (Numbers{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(of_each(6, [&](std::int32_t rank) { return map.index_of(rank); }), (Numbers{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(of_each(2, [&](std::int32_t host) { return map.size_of(host); }), (Numbers{3, 3}));
  EXPECT_EQ(ranks_of_host(map, 1), (Numbers{3, 4, 5}));
  EXPECT_EQ(ranks_with_index(map, 2), (Numbers{2, 5}));
}

TEST(Topology, SaysWhetherRanksOfAHostFollowOneAnother) {
  EXPECT_TRUE(Topology(HostList{7, 7, 3, 5, 5, 5}).map().follow_one_another);
  EXPECT_FALSE(Topology(HostList{7, 3, 3, 7}).map().follow_one_another);
}

TEST(Topology, SetsOfPeers) {
  const Topology topology(HostList{0, 1, 1, 0, 1});
  const auto peers = [&](std::int32_t rank, PeerSet set) {
    return list(rank, peers_of(Shape{5, rank, 0, 1, &topology.map()}, set));
  };
  EXPECT_EQ(peers(3, PeerSet::kAll), (std::vector<std::int32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(peers(3, PeerSet::kHost), (std::vector<std::int32_t>{0, 3}));
  EXPECT_EQ(peers(3, PeerSet::kAcross), (std::vector<std::int32_t>{3, 2})) << "in host order, not in rank order";
  EXPECT_EQ(peers(2, PeerSet::kAcross), peers(3, PeerSet::kAcross));
  EXPECT_EQ(peers(4, PeerSet::kHost), (std::vector<std::int32_t>{1, 2, 4}));
  EXPECT_TRUE(peers(4, PeerSet::kAcross).empty()) << "the other host has no third rank";
  EXPECT_TRUE(peers(4, PeerSet::kOne).empty());
}

Step from_group(std::int32_t distance, std::int32_t members) {
  return StepBuilder(0, 0).recv_each(HostGroup{distance, members}).reduce(BufferId::kInput, 0).step();
}

TEST(Topology, GroupsOfHosts) {
  const HostList dealt = uniform_hosts(6, 2, true);  // rank r is on host r % 6
  const Topology topology(dealt);
  const auto senders = [&](std::int32_t rank, const Step& step) {
    return list(rank, senders_of(Shape{12, rank, 0, 1, &topology.map()}, step));
  };
  EXPECT_EQ(senders(7, from_group(1, 3)), (std::vector<std::int32_t>{6, 7, 8})) << "second ranks of hosts 0 to 2";
  EXPECT_EQ(senders(4, from_group(1, 3)), (std::vector<std::int32_t>{3, 4, 5}));
  EXPECT_EQ(senders(4, from_group(3, 2)), (std::vector<std::int32_t>{1, 4}));
  EXPECT_TRUE(senders(5, from_group(2, 4)).empty()) << "hosts 1, 3, 5 and 7, which there is not";
  EXPECT_TRUE(senders(5, from_group(0, 2)).empty());
  EXPECT_EQ(list(5, senders_of(Shape{8, 5, 0, 1, nullptr}, from_group(2, 4))), (std::vector<std::int32_t>{1, 3, 5, 7}));
  EXPECT_EQ(HostGroup::from_peer(HostGroup{448, 7}.as_peer()).distance, 448);
  EXPECT_EQ(HostGroup::from_peer(HostGroup{448, 7}.as_peer()).members, 7);
}

/// Four hosts of three ranks, with lists, because another host has two ranks, and without.
TEST(Topology, SetsAndGroupsAreTheSameWithAndWithoutLists) {
  HostList hosts = uniform_hosts(4, 3, false);
  const Topology without(hosts);
  hosts.insert(hosts.end(), {9, 9});
  const Topology with(hosts);
  ASSERT_FALSE(without.map().has_lists());
  ASSERT_TRUE(with.map().has_lists());
  for (std::int32_t rank = 0; rank < 12; ++rank) {
    const Shape plain{12, rank, 0, 1, &without.map()};
    const Shape listed{14, rank, 0, 1, &with.map()};
    EXPECT_EQ(list(rank, peers_of(plain, PeerSet::kHost)), list(rank, peers_of(listed, PeerSet::kHost))) << rank;
    if (rank % 3 == 2) continue;  // the further host has no third rank
    Numbers across = list(rank, peers_of(listed, PeerSet::kAcross));
    across.pop_back();
    EXPECT_EQ(list(rank, peers_of(plain, PeerSet::kAcross)), across) << rank;
    for (const Step& step : {from_group(1, 2), from_group(2, 2), from_group(1, 4)})
      EXPECT_EQ(list(rank, senders_of(plain, step)), list(rank, senders_of(listed, step))) << rank;
  }
}

TEST(Topology, WithoutAMapEveryRankIsAHost) {
  const Topology one(HostList{2, 2, 2});
  for (const HostMap* map : {static_cast<const HostMap*>(nullptr), &one.map()}) {
    const Shape shape{3, 1, 0, 1, map};
    EXPECT_EQ(list(1, peers_of(shape, PeerSet::kAcross)), (std::vector<std::int32_t>{0, 1, 2}));
    EXPECT_EQ(list(1, peers_of(shape, PeerSet::kAll)), (std::vector<std::int32_t>{0, 1, 2}));
    EXPECT_TRUE(list(1, peers_of(shape, PeerSet::kHost)).empty());
  }
}

}  // namespace
}  // namespace tutti
