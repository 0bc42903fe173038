// Covers schedule/host_map.cc, schedule/peer_list.h.
// Hosts and their ranks, and the sets of peers that steps name, as generators see them.
#include "schedule/host_map.h"

#include <gtest/gtest.h>

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

TEST(Topology, NumbersHostsInOrderOfTheirFirstRanks) {
  const Topology topology(HostList{7, 3, 3, 7, 5, 3});
  const HostMap& map = topology.map();
  EXPECT_EQ(map.hosts, 3);
  EXPECT_EQ(map.fewest, 1);
  EXPECT_EQ(map.most, 3);
  EXPECT_EQ(std::vector<std::int32_t>(map.host_of, map.host_of + 6), (std::vector<std::int32_t>{0, 1, 1, 0, 2, 1}));
  EXPECT_EQ(std::vector<std::int32_t>(map.index_of, map.index_of + 6), (std::vector<std::int32_t>{0, 0, 1, 1, 0, 2}));
  EXPECT_EQ(std::vector<std::int32_t>(map.first, map.first + 4), (std::vector<std::int32_t>{0, 2, 5, 6}));
  EXPECT_EQ(std::vector<std::int32_t>(map.members, map.members + 6), (std::vector<std::int32_t>{0, 3, 1, 2, 5, 4}));
  EXPECT_EQ(std::vector<std::int32_t>(map.same_index, map.same_index + 3), (std::vector<std::int32_t>{0, 1, 4}));
  EXPECT_FALSE(map.follow_one_another);
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
