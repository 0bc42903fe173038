// Topologies as generators see them, and hierarchical generators by hand and at compile time.
#include <gtest/gtest.h>

#include "collectives/hierarchical_leaders.h"
#include "collectives/hierarchical_ring.h"
#include "schedule/peer_list.h"
#include "schedule/topologies.h"

namespace tutti {
namespace {

std::vector<std::int32_t> list(const PeerList& peers) {
  std::vector<std::int32_t> ranks;
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
}

TEST(Topology, SetsOfPeers) {
  const Topology topology(HostList{0, 1, 1, 0, 1});
  const auto peers = [&](std::int32_t rank, PeerSet set) {
    return list(peers_of(Shape{5, rank, 0, 1, &topology.map()}, set));
  };
  EXPECT_EQ(peers(3, PeerSet::kAll), (std::vector<std::int32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(peers(3, PeerSet::kHost), (std::vector<std::int32_t>{0, 3}));
  EXPECT_EQ(peers(3, PeerSet::kAcross), (std::vector<std::int32_t>{3, 2})) << "in host order, not in rank order";
  EXPECT_EQ(peers(2, PeerSet::kAcross), peers(3, PeerSet::kAcross));
  EXPECT_EQ(peers(4, PeerSet::kHost), (std::vector<std::int32_t>{1, 2, 4}));
  EXPECT_TRUE(peers(4, PeerSet::kAcross).empty()) << "the other host has no third rank";
  EXPECT_TRUE(peers(4, PeerSet::kOne).empty());
}

TEST(Topology, WithoutAMapEveryRankIsAHost) {
  const Topology one(HostList{2, 2, 2});
  for (const HostMap* map : {static_cast<const HostMap*>(nullptr), &one.map()}) {
    const Shape shape{3, 1, 0, 1, map};
    EXPECT_EQ(list(peers_of(shape, PeerSet::kAcross)), (std::vector<std::int32_t>{0, 1, 2}));
    EXPECT_EQ(list(peers_of(shape, PeerSet::kAll)), (std::vector<std::int32_t>{0, 1, 2}));
    EXPECT_TRUE(list(peers_of(shape, PeerSet::kHost)).empty());
  }
}

// Two hosts of two ranks, dealt out in turn (0 and 2, 1 and 3), as a constant: generators need nothing but pointers.
constexpr std::int32_t kHostOf[] = {0, 1, 0, 1};
constexpr std::int32_t kIndexOf[] = {0, 0, 1, 1};
constexpr std::int32_t kFirst[] = {0, 2, 4};
constexpr std::int32_t kMembers[] = {0, 2, 1, 3};
constexpr std::int32_t kSameIndex[] = {0, 1, 2, 3};
constexpr HostMap kDealt{2, 2, 2, kHostOf, kIndexOf, kFirst, kMembers, kSameIndex};
constexpr Shape kRank2{4, 2, 0, 1, &kDealt};

// Rank 2 is driver 1 of host 0: chunks 2 and 3 are its share, chunks 0 and 1 that of rank 0; rank 3 is its peer.
static_assert(hierarchical_ring::extent(kRank2).parts == 4);
static_assert(hierarchical_ring::all_reduce_steps(kRank2) == 10);
static_assert(hierarchical_ring::all_reduce_step(kRank2, 0, 0) ==
              StepBuilder(0, 0).take(BufferId::kInput, 0).send(0).step());
static_assert(hierarchical_ring::all_reduce_step(kRank2, 0, 1) ==
              StepBuilder(0, 2).recv_each(PeerSet::kHost).reduce(BufferId::kInput, 2).send(3).step());
static_assert(
    hierarchical_ring::all_reduce_step(kRank2, 0, 4) ==
    StepBuilder(0, 3).recv(3).reduce(BufferId::kOutput, 3, true).complete().store(BufferId::kOutput, 3).send(3).step());
static_assert(hierarchical_leaders::all_reduce_steps(kRank2) == 2);
static_assert(hierarchical_leaders::barrier_steps(Shape{4, 0, 0, 1, &kDealt}) == 3);

}  // namespace
}  // namespace tutti
