// Covers collectives/choice/rooted_times.cc, collectives/choice/rooted_times_of_blocks.cc,
// collectives/choice/choice_by_time.cc.
// The closed forms of collectives with a root: by hand, and the choice that they make by the simulator's times.
#include "collectives/choice/rooted_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "collectives/choice/simulated_cluster.h"

namespace tutti {
namespace {

constexpr Time kHop = 10'000'000 + 1'500'000 + 1'400'000;  // a message without bytes

TEST(RootedTimes, ATreesLevelsFollowOneAnother) {
  const HostList hosts = uniform_hosts(16, 1, false);
  const Topology topology(hosts);
  const Machine machine = cluster(hosts);
  const RootedTimes empty(machine, &topology.map(), Bytes{0});
  EXPECT_EQ(empty.broadcast_tree(2), 4 * kHop);
  EXPECT_EQ(empty.broadcast_tree(4), 2 * (kHop + 2 * 1'500'000)) << "two are served before the last child";
  EXPECT_EQ(empty.broadcast_tree(16), kHop + 14 * 1'500'000);
  EXPECT_EQ(empty.reduce_tree(4), 2 * (kHop + 2 * 1'400'000));
  EXPECT_EQ(empty.broadcast_double_tree(), 4 * (kHop + 1'500'000));
  EXPECT_EQ(empty.blocks_straight(Collective::kScatter), kHop + 14 * 1'500'000);
  EXPECT_EQ(empty.blocks_straight(Collective::kGather), kHop + 14 * 1'400'000);
}

TEST(RootedTimes, MessagesThatAreUnderWayAtOnceShareTheLink) {
  const HostList hosts = uniform_hosts(16, 1, false);
  const Topology topology(hosts);
  Machine machine = cluster(hosts);
  machine.costs.tcp = LinkCosts{10'000'000, 0, 0, 0, 0, 8'192'000, 0};
  machine.costs.copy_kib = machine.costs.reduce_kib = 0;
  const Time wire = 16 * Time{8'192'000};
  const RootedTimes of_16_kib(machine, &topology.map(), Bytes{16384});
  EXPECT_EQ(of_16_kib.broadcast_tree(2), 4 * 10'000'000 + (4 + 3 + 2 + 1) * wire);
  EXPECT_EQ(of_16_kib.reduce_tree(2), 4 * (10'000'000 + wire)) << "children come one after the other";
  EXPECT_EQ(of_16_kib.blocks_straight(Collective::kGather), 10'000'000 + 15 * wire);
  EXPECT_EQ(of_16_kib.blocks_straight(Collective::kScatter), 10'000'000 + 15 * wire);
}

TEST(RootedTimes, ALeaderIsOneHopAway) {
  const HostList hosts = uniform_hosts(4, 8, false);
  const Topology topology(hosts);
  Machine machine = cluster(hosts);
  machine.costs.shm = LinkCosts{};
  const RootedTimes empty(machine, &topology.map(), Bytes{0});
  EXPECT_EQ(empty.broadcast_tree_of_hosts(), 2 * kHop);
  EXPECT_EQ(empty.blocks_by_leaders(Collective::kScatter), kHop + 2 * 1'500'000);
}

/// A socket delivers a block straight to its place, which costs no copy. A sum also reads the operand that is there.
TEST(RootedTimes, AMessagesBytesCostBothItsEnds) {
  const HostList hosts = uniform_hosts(16, 1, false);
  const Topology topology(hosts);
  Machine machine = cluster(hosts);
  machine.costs.copy_kib = 1'000'000;
  machine.costs.reduce_kib = 15'000;
  const Time bytes = 16 * Time{85'000 + 85'000 + 81'920};
  const RootedTimes of_16_kib(machine, &topology.map(), Bytes{16384});
  EXPECT_EQ(of_16_kib.broadcast_tree(2), 4 * (kHop + bytes));
  EXPECT_EQ(of_16_kib.reduce_tree(2), 4 * (kHop + bytes + 16 * 2 * Time{15'000}));
}

TEST(RootedTimes, ATreeOfThreeHostsHasOneHop) {
  const HostList three = uniform_hosts(3, 8, false), six = uniform_hosts(6, 8, false);
  const Topology of_three(three), of_six(six);
  Machine machine = cluster(three);
  machine.costs.shm = LinkCosts{};
  EXPECT_EQ(RootedTimes(machine, &of_three.map(), Bytes{0}).broadcast_tree_of_hosts(), kHop + 1'500'000);
  EXPECT_EQ(RootedTimes(machine, &of_three.map(), Bytes{0}).reduce_tree_of_hosts(), kHop + 1'400'000);
  machine.ranks = 48;
  EXPECT_EQ(RootedTimes(machine, &of_six.map(), Bytes{0}).broadcast_tree_of_hosts(), 2 * kHop + 1'500'000);
  machine.costs.shm.send_overhead = 10'000;
  EXPECT_EQ(RootedTimes(machine, &of_six.map(), Bytes{0}).broadcast_tree_of_hosts(), 2 * kHop + 1'500'000 + 7 * 10'000)
      << "the other ranks of a host are served one after the other";
}

TEST(RootedTimes, TilesFollowOneAnotherInDoubleTrees) {
  const HostList hosts = uniform_hosts(16, 1, false);
  const Topology topology(hosts);
  Machine machine = cluster(hosts);
  machine.lanes = 2;
  machine.costs.tcp = LinkCosts{10'000'000, 0, 0, 0, 0, 8'192'000, 0};
  machine.costs.copy_kib = machine.costs.reduce_kib = 0;
  const Time wire = 64 * Time{8'192'000};  // of a tile of 128 KiB each of two lanes has half
  const RootedTimes of_256_kib(machine, &topology.map(), Bytes{256 * 1024});
  EXPECT_EQ(of_256_kib.broadcast_double_tree_of_hosts(), 4 * (10'000'000 + 2 * wire) + 2 * wire);
  EXPECT_EQ(of_256_kib.reduce_double_tree_of_hosts(), of_256_kib.broadcast_double_tree_of_hosts());
}

/// The time is computed by hand. On each level of the tree a host's link carries what goes to all its children, and as
/// many parts of the ring as the longest message has: 15 and 8, then 7 and 4, 3 and 2, 1 and 1. After that fourteen
/// parts are still to come.
TEST(RootedTimes, PartsGoAroundWhileOthersAreHandedOut) {
  const HostList hosts = uniform_hosts(16, 1, false);
  const Topology topology(hosts);
  Machine machine = cluster(hosts);
  machine.costs.tcp = LinkCosts{10'000'000, 0, 0, 0, 0, 8'192'000, 0};
  const RootedTimes of_16_kib(machine, &topology.map(), Bytes{16384});
  EXPECT_EQ(of_16_kib.scatter_all_gather(), 4 * 10'000'000 + (23 + 11 + 5 + 2 + 14) * Time{8'192'000});
}

/// Two lanes' messages leave together and share the link on each hop of a chain.
TEST(RootedTimes, LanesShareTheLinksOfAChain) {
  const HostList hosts = uniform_hosts(16, 1, false);
  const Topology topology(hosts);
  Machine machine = cluster(hosts);
  machine.costs.tcp = LinkCosts{10'000'000, 0, 0, 0, 0, 8'192'000, 0};
  const Time wire = 16 * Time{8'192'000};  // of a tile of 32 KiB each of two lanes has half
  const RootedTimes of_64_kib(machine, &topology.map(), Bytes{64 * 1024});
  EXPECT_EQ(of_64_kib.broadcast_chain(), 15 * (10'000'000 + 2 * wire) + 2 * wire) << "two tiles";
}

TEST(RootedTimes, EachDriverHasAShareInKnomialTreesOfHosts) {
  const HostList hosts = uniform_hosts(16, 8, false);
  const Topology topology(hosts);
  Machine machine = cluster(hosts);
  machine.costs.shm = LinkCosts{};
  const RootedTimes empty(machine, &topology.map(), Bytes{0});
  EXPECT_EQ(empty.broadcast_knomial_of_hosts(4), 2 * (kHop + 2 * 1'500'000));
  EXPECT_EQ(empty.broadcast_knomial_of_hosts(8), kHop + 6 * 1'500'000 + kHop)
      << "the root's host has seven children, and one";
  EXPECT_EQ(empty.reduce_knomial_of_hosts(4), 2 * (kHop + 2 * 1'400'000));
  machine.costs.shm.send_overhead = 10'000;
  const RootedTimes within(machine, &topology.map(), Bytes{0});
  EXPECT_EQ(within.broadcast_knomial_of_hosts(4), 2 * (kHop + 2 * 1'500'000) + 7 * 10'000 + 7 * 10'000);
  EXPECT_EQ(within.reduce_knomial_of_hosts(4), 2 * (kHop + 2 * 1'400'000) + 7 * 10'000 + 10'000 + 10'000);
  machine.costs.shm = LinkCosts{};
  machine.costs.tcp = LinkCosts{10'000'000, 0, 0, 0, 0, 8'192'000, 0};
  machine.costs.copy_kib = machine.costs.reduce_kib = 0;
  const Time wire = 8 * 16 * Time{8'192'000};  // a share of 16 KiB of each of eight drivers
  const RootedTimes of_128_kib(machine, &topology.map(), Bytes{128 * 1024});
  EXPECT_EQ(of_128_kib.broadcast_knomial_of_hosts(4), 2 * 10'000'000 + (3 + 6) * wire) << "all share the link";
  EXPECT_EQ(of_128_kib.reduce_knomial_of_hosts(4), 2 * (10'000'000 + 3 * wire));
}

/// The ninth host has no children: the root sends eight messages one after the other, and adds eight.
TEST(RootedTimes, ASmallSubtreeAddsAMessageNotAHop) {
  const HostList hosts = uniform_hosts(9, 2, false);
  const Topology topology(hosts);
  Machine machine = cluster(hosts);
  machine.costs.shm = LinkCosts{};
  const RootedTimes empty(machine, &topology.map(), Bytes{0});
  EXPECT_EQ(empty.broadcast_knomial_of_hosts(8), kHop + 7 * 1'500'000);
  EXPECT_EQ(empty.reduce_knomial_of_hosts(8), kHop + 7 * 1'400'000);
}

/// The smallest host has one rank, so one driver a host has all of the data.
TEST(RootedTimes, AHostOfOneRankLeavesOneShare) {
  HostList hosts = uniform_hosts(3, 8, false);
  hosts.push_back(3);
  const Topology topology(hosts);
  Machine machine = cluster(hosts);
  machine.costs.shm = LinkCosts{};
  machine.costs.copy_kib = machine.costs.reduce_kib = 0;
  machine.costs.tcp = LinkCosts{10'000'000, 0, 0, 0, 0, 8'192'000, 0};
  const RootedTimes of_16_kib(machine, &topology.map(), Bytes{16384});
  EXPECT_EQ(of_16_kib.broadcast_knomial_of_hosts(4), 10'000'000 + 3 * 16 * Time{8'192'000});
}

TEST(RootedTimes, MessagesOfRanksThatShareACoreTakeTurns) {
  const HostList hosts = uniform_hosts(4, 16, false);
  const Topology topology(hosts);
  Machine machine = cluster(hosts);
  machine.costs.shm = LinkCosts{};
  machine.costs.cores = 8;
  machine.costs.handover = 1'000'000;
  const RootedTimes empty(machine, &topology.map(), Bytes{0});
  const Time handovers = 2 * 2 * Time{1'000'000};  // after the hop, and when the ranks of a host have heard each other
  EXPECT_EQ(empty.broadcast_knomial_of_hosts(4), 10'000'000 + 2 * (3 * 1'500'000 + 1'400'000) + handovers);
  EXPECT_EQ(empty.reduce_knomial_of_hosts(4), 10'000'000 + 1'500'000 * 2 + 2 * 3 * 1'400'000);
}

TEST(RootedTimes, AChainWaitsForCredits) {
  const HostList hosts = uniform_hosts(16, 1, false);
  const Topology topology(hosts);
  Machine machine = cluster(hosts);
  machine.lanes = 1;
  machine.credits = 2;
  machine.costs.tcp = LinkCosts{10'000'000, 0, 0, 0, 0, 0, 0};
  machine.costs.tcp.wire_kib = 1;
  machine.costs.copy_kib = 0;
  const RootedTimes of_64_kib(machine, &topology.map(), Bytes{64 * 1024});
  EXPECT_EQ(of_64_kib.broadcast_chain(), 15 * (10'000'000 + 32) + (20'000'000 + 32) / 2) << "two tiles";
}

TEST(RootedTimes, MemoryServesAllRanksOfAHost) {
  const HostList hosts = uniform_hosts(2, 8, false);
  const Topology topology(hosts);
  Machine machine = cluster(hosts);
  machine.costs.memory_kib = 1'000'000;
  const Time memory = 9 * 65'536 * Time{1'000'000};  // the root reads, all eight write
  const RootedTimes of_64_mib(machine, &topology.map(), Bytes{64 << 20});
  EXPECT_EQ(of_64_mib.broadcast_chain(), memory);
  EXPECT_EQ(of_64_mib.broadcast_double_tree_of_hosts(), memory);
  EXPECT_EQ(of_64_mib.reduce_chain(), memory);
  EXPECT_EQ(of_64_mib.reduce_double_tree_of_hosts(), memory + memory / 5);
}

TEST(RootedTimes, RanksOfACoreTakeTurns) {
  const HostList hosts = uniform_hosts(4, 9, false);
  const Topology topology(hosts);
  Machine machine = cluster(hosts);
  machine.costs.tcp.wire_kib = machine.costs.memory_kib = 1;
  machine.credits = 4;
  machine.costs.cores = 9;
  const Time apart = RootedTimes(machine, &topology.map(), Bytes{64 << 20}).reduce_chain();
  machine.costs.cores = 8;
  const Time in_turn = RootedTimes(machine, &topology.map(), Bytes{64 << 20}).reduce_chain();
  EXPECT_GT(in_turn, apart * 19 / 10);
  EXPECT_LE(in_turn, apart * 2);
}

/// For each of these the library used to choose an algorithm that takes 1.31 to 1.46 times as long as the rival.
TEST(RootedTimes, ChooseFastBroadcastsOnOtherNetworks) {
  struct Layout {
    int hosts, each, cores;
    Time wire_kib;
    std::size_t bytes;
    bool last;  ///< the root is the last rank
    const char* rival;
  };
  for (const Layout& c : {Layout{33, 3, 8, 8'192'000, 524288, false, "hierarchical_double_tree"},
                          Layout{48, 1, 8, 8'192'000, 524288, false, "hierarchical_double_tree"},
                          Layout{12, 16, 8, 81'920, 4096, false, "knomial_4"},
                          Layout{5, 32, 32, 81'920, 2097152, true, "hierarchical_double_tree"}}) {
    const HostList hosts = uniform_hosts(c.hosts, c.each, false);
    const Topology topology(hosts);
    const Machine machine = cluster(hosts, c.cores, c.wire_kib);
    const Bytes bytes{c.bytes};
    const std::int32_t root = c.last ? machine.ranks - 1 : 0;
    const std::string chosen(automatic_algorithm(Collective::kBroadcast, bytes, machine, &topology.map()));
    const Time best = simulated(Collective::kBroadcast, machine, topology, c.rival, bytes, root);
    EXPECT_LE(simulated(Collective::kBroadcast, machine, topology, chosen, bytes, root), best + best / 4)
        << c.hosts << " hosts of " << c.each << ", " << c.bytes << " bytes: " << chosen;
  }
}

struct Case {
  Collective collective;
  std::int64_t percent;  ///< of the best one's time, at most
};
constexpr Case kCases[] = {
    {Collective::kBroadcast, 125}, {Collective::kReduce, 125}, {Collective::kGather, 130}, {Collective::kScatter, 120}};

/// The choice does not know the root, so the slower one of two counts.
Time simulated_with_any_root(Collective collective, const Machine& machine, const Topology& topology,
                             const std::string& name, Bytes bytes) {
  return std::max(simulated(collective, machine, topology, name, bytes),
                  simulated(collective, machine, topology, name, bytes, machine.ranks - 1));
}

/// On a fast, a middling and a slow network. Of ranks that are dealt out
/// to the hosts, and of unequal hosts, the forms know less.
TEST(RootedTimes, ChooseWhatTheSimulatorCallsFast) {
  HostList uneven = uniform_hosts(3, 8, false);
  uneven.push_back(2);
  for (const HostList& hosts : {uneven, uniform_hosts(4, 9, false), uniform_hosts(6, 6, false),
                                uniform_hosts(3, 8, false), uniform_hosts(8, 4, false), uniform_hosts(11, 4, false),
                                uniform_hosts(16, 1, false), uniform_hosts(40, 1, false), uniform_hosts(9, 2, false),
                                uniform_hosts(9, 8, false), uniform_hosts(32, 8, false), uniform_hosts(8, 4, true)}) {
    const Topology topology(hosts);
    Machine machine = cluster(hosts);
    const HostMap& map = topology.map();
    const bool regular = map.most == 1 || (map.follow_one_another && map.fewest == map.most);
    const std::int64_t more = regular ? 0 : 50;
    for (const Time wire_kib : {Time{81'920}, Time{819'200}, Time{8'192'000}}) {
      machine.costs.tcp.wire_kib = wire_kib;
      for (const Case& of : kCases) {
        for (const std::size_t size : {8, 1024, 32768, 131072}) {
          const Bytes bytes{size};
          const std::string chosen(automatic_algorithm(of.collective, bytes, machine, &topology.map()));
          Time best = INT64_MAX;
          for (const Algorithm& algorithm : catalogue())
            if (algorithm.collective == of.collective)
              best = std::min(best, simulated_with_any_root(of.collective, machine, topology, algorithm.name, bytes));
          EXPECT_LE(simulated_with_any_root(of.collective, machine, topology, chosen, bytes),
                    best / 100 * (of.percent + more))
              << name_of(of.collective) << ", " << topology.map().hosts << " hosts of " << topology.map().most << ", "
              << wire_kib << " ps a KiB, " << size << " bytes: " << chosen;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tutti
