// Covers collectives/choice/one_system_choice.cc.
// The choice where tcp connects ranks that all run on the same cores.
#include "collectives/choice/one_system_choice.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collectives/choice/catalogue.h"
#include "collectives/choice/choice.h"
#include "collectives/choice/network_machine.h"
#include "schedule/topologies.h"

namespace tutti {
namespace {

constexpr std::size_t kSystemSizes[] = {0,     8,      4096,   16384,  32768,   65536,
                                        70000, 131073, 262144, 262145, 5 << 20, (std::size_t{1} << 30) + 5};
constexpr Collective kOfferedOnOneSystem[] = {
    Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather, Collective::kBroadcast,
    Collective::kReduce,    Collective::kBarrier,       Collective::kGather,    Collective::kScatter,
    Collective::kAllToAll,  Collective::kAllGatherV,    Collective::kAllToAllV};

Machine system_of(const HostList& hosts, int ranks_per_core) {
  Machine machine = network_machine(hosts);
  machine.same_boot_id = true;
  machine.ranks_per_core = ranks_per_core;
  return machine;
}

Machine loopback_machine(int ranks, int ranks_per_core) {
  Machine machine = system_of(uniform_hosts(ranks, 1, false), ranks_per_core);
  machine.same_host_id = true;
  return machine;
}

void expect_to_serve(Machine machine, const HostMap& map, Collective collective, std::size_t bytes) {
  const Choice choice = choose(collective, Bytes{bytes}, machine, "auto", Bytes{0}, &map);
  ASSERT_NE(choice.algorithm, nullptr) << name_of(collective) << " " << bytes;
  const Algorithm& algorithm = *choice.algorithm;
  SCOPED_TRACE(std::string(algorithm.name) + " for " + std::string(name_of(collective)));
  EXPECT_EQ(algorithm.collective, scheduled_as(collective));
  EXPECT_TRUE(scheduled_as(collective) == collective || is_ragged_capable(algorithm));
  EXPECT_TRUE(!machine.deterministic || is_deterministic(algorithm));
  const Extent extent = algorithm.extent(Shape{machine.ranks, 0, 0, choice.lanes, &map});
  EXPECT_LE(extent.message_chunks * kPartAlign.value, machine.max_message.value) << bytes;
}

TEST(OneSystemChoice, HasAnAlgorithmThatServesAndFits) {
  for (const HostList& hosts :
       {uniform_hosts(2, 1, false), uniform_hosts(3, 1, false), uniform_hosts(8, 1, false), uniform_hosts(12, 1, false),
        uniform_hosts(65, 1, false), uniform_hosts(2, 2, true), uniform_hosts(8, 2, false), uniform_hosts(12, 4, true),
        uniform_hosts(16, 5, false), HostList{0, 1, 0, 1, 1}, HostList{0, 0, 0, 1, 2}}) {
    const Topology topology(hosts);
    for (const int ranks_per_core : {1, 2, 8}) {
      Machine machine = system_of(hosts, ranks_per_core);
      machine.same_host_id = topology.map().hosts == machine.ranks && ranks_per_core > 1;
      for (const bool deterministic : {false, true}) {
        machine.deterministic = deterministic;
        for (const std::size_t message : {64u, 512u, 262144u}) {
          machine.max_message = Bytes{message};
          for (const Collective collective : kOfferedOnOneSystem)
            for (const std::size_t bytes : kSystemSizes) expect_to_serve(machine, topology.map(), collective, bytes);
        }
      }
    }
  }
}

std::vector<std::string> chosen(Collective collective, const Machine& machine, const HostMap* map = nullptr) {
  std::vector<std::string> names;
  for (const std::size_t bytes : {8, 16 << 10, 32 << 10, 64 << 10, 256 << 10, 1 << 20, 16 << 20})
    names.emplace_back(automatic_algorithm(collective, Bytes{bytes}, machine, map));
  return names;
}

const std::string kPairs = "all_pairs", kShots = "all_pairs_two_shot", kDoubling = "recursive_doubling", kRing = "ring";
const std::string kHalving = "halving_doubling", kLinear = "linear", kTree = "tree";
const std::string kScatter = "scatter_exchange_1", kBruck = "bruck", kPairwise = "pairwise", kRings = "hierarchical";
const std::string kHalves = "recursive_halving";

/// The algorithms are those that were measured to be fast.
TEST(OneSystemChoice, OnTheLoopbackFollowsTheRanksAndHowManyShareACore) {
  struct Case {
    Collective collective;
    int ranks, ranks_per_core;
    std::vector<std::string> chosen;  // of 8 bytes, 16, 32, 64 and 256 KiB, 1 and 16 MiB
  };
  const Collective all_reduce = Collective::kAllReduce, reduce = Collective::kReduce, to_all = Collective::kAllToAll;
  for (const Case& c :
       {Case{all_reduce, 2, 1, {kPairs, kPairs, kPairs, kPairs, kPairs, kShots, kShots}},
        Case{all_reduce, 3, 2, {kDoubling, kDoubling, kDoubling, kShots, kRing, kRing, kRing}},
        Case{all_reduce, 4, 2, {kDoubling, kDoubling, kDoubling, kHalving, kHalving, kHalving, kRing}},
        Case{all_reduce, 8, 1, {kPairs, kDoubling, kDoubling, kHalving, kHalving, kHalving, kRing}},
        Case{all_reduce, 12, 1, {kDoubling, kDoubling, kDoubling, kScatter, kRing, kRing, kRing}},
        Case{all_reduce, 16, 8, {kLinear, kLinear, kLinear, kLinear, kLinear, kHalving, kRing}},
        Case{all_reduce, 24, 12, {kLinear, kLinear, kLinear, kLinear, kLinear, kHalving, kRing}},
        Case{all_reduce, 48, 24, {kLinear, kLinear, kLinear, kLinear, kHalving, kHalving, kRing}},
        Case{all_reduce, 128, 64, {kDoubling, kDoubling, kDoubling, kHalving, kHalving, kHalving, kRing}},
        Case{reduce, 4, 2, {kPairs, kTree, kTree, kTree, kTree, kTree, kTree}},
        Case{reduce, 16, 8, {kPairs, kPairs, kPairs, kPairs, kTree, kTree, kTree}},
        Case{Collective::kBroadcast, 16, 8, {kPairs, kPairs, kPairs, kPairs, kTree, kTree, kTree}},
        Case{Collective::kBroadcast, 16, 2, {kTree, kTree, kTree, kTree, kTree, kTree, kTree}},
        Case{Collective::kAllGather, 4, 2, {kBruck, kBruck, kBruck, kBruck, kRing, kRing, kRing}},
        Case{Collective::kAllGather, 16, 8, {kBruck, kBruck, kBruck, kBruck, kRing, kRing, kRing}},
        Case{Collective::kReduceScatter, 16, 8, {kHalves, kHalves, kHalves, kHalves, kRing, kRing, kRing}},
        Case{to_all, 8, 1, {kPairs, kPairs, kPairs, kPairs, kPairs, kPairs, kPairs}},
        Case{to_all, 8, 4, {kBruck, kPairs, kPairs, kPairs, kPairs, kPairs, kPairs}},
        Case{to_all, 16, 8, {kBruck, kPairs, kPairs, kPairs, kPairwise, kPairwise, kPairwise}},
        Case{Collective::kAllGatherV, 16, 8, {kPairs, kPairs, kPairs, kPairs, kPairs, kPairs, kPairs}}})
    EXPECT_EQ(chosen(c.collective, loopback_machine(c.ranks, c.ranks_per_core)), c.chosen)
        << name_of(c.collective) << " of " << c.ranks << " ranks, " << c.ranks_per_core << " a core";
}

TEST(OneSystemChoice, RingsBeginAfterSoMuchForEachRankAndSoMuchInAll) {
  const auto name = [](int ranks, std::size_t bytes) {
    return std::string(automatic_algorithm(Collective::kAllReduce, Bytes{bytes}, loopback_machine(ranks, 1), nullptr));
  };
  constexpr std::size_t kMebi = 1024 * 1024;
  for (const auto& [ranks, most] : {std::pair{4, kMebi}, {8, 2 * kMebi}, {32, 2 * kMebi}}) {
    EXPECT_EQ(name(ranks, most), kHalving) << ranks;
    EXPECT_EQ(name(ranks, most + 4), kRing) << ranks;
  }
}

TEST(OneSystemChoice, AllReduceOfHostsFollowsHostsAndTheirRanks) {
  struct Case {
    int hosts, each;
    std::vector<std::string> chosen;  // of 8 bytes, 16, 32, 64 and 256 KiB, 1 and 16 MiB
  };
  const std::string leaders = "hierarchical_leaders", exchange = "recursive_exchange";
  for (const Case& c : {Case{2, 2, {leaders, leaders, leaders, exchange, exchange, kRings, kRings}},
                        Case{2, 4, {leaders, leaders, leaders, leaders, leaders, leaders, kRings}},
                        Case{3, 2, {kDoubling, kDoubling, kDoubling, kHalving, kHalving, kRings, kRings}},
                        Case{4, 2, {kDoubling, kDoubling, kHalving, kHalving, kHalving, kRings, kRings}},
                        Case{4, 4, {leaders, leaders, leaders, leaders, kScatter, kRings, kRings}},
                        Case{8, 2, {kDoubling, kHalving, kHalving, kHalving, kHalving, kHalving, kRings}},
                        Case{8, 4, {leaders, exchange, exchange, kScatter, kScatter, kScatter, kRings}},
                        Case{12, 2, {leaders, exchange, exchange, kScatter, kScatter, kScatter, kRings}},
                        Case{3, 1, {kDoubling, kDoubling, kDoubling, kShots, kRing, kRing, kRing}},
                        Case{8, 1, {kDoubling, kDoubling, kDoubling, kHalving, kHalving, kHalving, kRing}}}) {
    const HostList hosts = uniform_hosts(c.hosts, c.each, false);
    const Topology topology(hosts);
    EXPECT_EQ(chosen(Collective::kAllReduce, system_of(hosts, 4), &topology.map()), c.chosen)
        << c.hosts << " hosts of " << c.each;
  }
}

TEST(OneSystemChoice, BlocksOfHostsTravelTogetherWhileTheyAreSmall) {
  const HostList hosts = uniform_hosts(4, 2, false);
  const Topology topology(hosts);
  const auto name = [&](Collective collective, std::size_t bytes, int max_message = 262144) {
    Machine machine = system_of(hosts, 4);
    machine.max_message = Bytes{static_cast<std::size_t>(max_message)};
    return automatic_algorithm(collective, Bytes{bytes}, machine, &topology.map());
  };
  EXPECT_EQ(name(Collective::kAllGather, 32 << 10), "hierarchical_rounds");
  EXPECT_EQ(name(Collective::kAllGather, 64 << 10), "hierarchical");
  EXPECT_EQ(name(Collective::kAllGather, 8, 64), "hierarchical") << "messages hold one chunk";
  EXPECT_EQ(name(Collective::kAllToAll, 4 << 10), "hierarchical_2");
  EXPECT_EQ(name(Collective::kAllToAll, 64 << 10), "hierarchical");
  EXPECT_EQ(name(Collective::kAllToAll, 128 << 10), "pairwise");
  EXPECT_EQ(name(Collective::kAllReduce, 128 << 10, 64), "hierarchical") << "messages hold one chunk";
}

TEST(OneSystemChoice, RootsOfHostsServeAllOrHaveLeaders) {
  struct Case {
    Collective collective;
    int hosts, each;
    std::vector<std::string> chosen;  // of 8 bytes, 16, 32, 64 and 256 KiB, 1 and 16 MiB
  };
  const std::string by_hosts = "hierarchical_tree", large = "hierarchical_knomial_4", leaders = "hierarchical_leaders";
  const Collective broadcast = Collective::kBroadcast, reduce = Collective::kReduce;
  const Collective gather = Collective::kGather, scatter = Collective::kScatter;
  for (const Case& c : {Case{broadcast, 2, 2, {by_hosts, by_hosts, by_hosts, by_hosts, by_hosts, large, large}},
                        Case{broadcast, 3, 2, {by_hosts, by_hosts, by_hosts, by_hosts, by_hosts, large, large}},
                        Case{broadcast, 4, 2, {by_hosts, by_hosts, by_hosts, by_hosts, by_hosts, by_hosts, by_hosts}},
                        Case{broadcast, 8, 2, {kTree, kTree, kTree, kTree, kTree, by_hosts, by_hosts}},
                        Case{broadcast, 8, 4, {by_hosts, by_hosts, by_hosts, by_hosts, by_hosts, by_hosts, by_hosts}},
                        Case{reduce, 2, 2, {kPairs, kPairs, by_hosts, by_hosts, by_hosts, large, large}},
                        Case{reduce, 2, 4, {kPairs, by_hosts, by_hosts, by_hosts, by_hosts, by_hosts, by_hosts}},
                        Case{reduce, 8, 2, {kPairs, by_hosts, by_hosts, by_hosts, by_hosts, by_hosts, by_hosts}},
                        Case{reduce, 4, 4, {by_hosts, by_hosts, by_hosts, by_hosts, by_hosts, by_hosts, by_hosts}},
                        Case{gather, 2, 2, {kPairs, kPairs, kPairs, kPairs, kPairs, kPairs, kPairs}},
                        Case{gather, 8, 2, {kPairs, kPairs, kPairs, kPairs, kPairs, kPairs, kPairs}},
                        Case{gather, 4, 4, {kPairs, kPairs, kPairs, kPairs, kPairs, kPairs, kPairs}},
                        Case{gather, 33, 2, {leaders, leaders, kPairs, kPairs, kPairs, kPairs, kPairs}},
                        Case{scatter, 8, 2, {kTree, kTree, leaders, leaders, leaders, leaders, leaders}},
                        Case{scatter, 4, 4, {leaders, leaders, leaders, leaders, leaders, leaders, leaders}}}) {
    const HostList hosts = uniform_hosts(c.hosts, c.each, false);
    const Topology topology(hosts);
    EXPECT_EQ(chosen(c.collective, system_of(hosts, 4), &topology.map()), c.chosen)
        << name_of(c.collective) << " on " << c.hosts << " hosts of " << c.each;
  }
}

TEST(OneSystemChoice, ABarrierIsLinearWhereMessagesAreThereAtOnce) {
  const auto barrier = [](const Machine& machine) {
    return automatic_algorithm(Collective::kBarrier, Bytes{0}, machine);
  };
  EXPECT_EQ(barrier(loopback_machine(2, 1)), "all_pairs");
  EXPECT_EQ(barrier(loopback_machine(8, 1)), "recursive_doubling");
  EXPECT_EQ(barrier(loopback_machine(4, 2)), "linear");
  EXPECT_EQ(barrier(loopback_machine(64, 32)), "linear");
  EXPECT_EQ(barrier(loopback_machine(65, 33)), "dissemination") << "one rank would have as many connections";
  EXPECT_EQ(barrier(system_of(uniform_hosts(8, 1, false), 4)), "recursive_doubling");
  const auto barrier_of = [](int hosts) {
    const HostList list = uniform_hosts(hosts, 2, false);
    const Topology topology(list);
    return automatic_algorithm(Collective::kBarrier, Bytes{0}, system_of(list, 4), &topology.map());
  };
  EXPECT_EQ(barrier_of(2), "hierarchical");
  EXPECT_EQ(barrier_of(3), "hierarchical") << "six ranks are no power of two";
  EXPECT_EQ(barrier_of(4), "recursive_doubling");
  EXPECT_EQ(barrier_of(8), "recursive_doubling");
}

/// Where the cores are busy copying, a second lane costs more than it gains until calls are large.
TEST(OneSystemChoice, TakesASecondLaneLater) {
  Machine machine = network_machine(uniform_hosts(2, 1, false));
  machine.lanes = 2;
  for (const bool same_boot_id : {false, true}) {
    machine.same_boot_id = same_boot_id;
    const auto lanes = [&](std::size_t bytes) {
      return choose(Collective::kAllReduce, Bytes{bytes}, machine, "auto", Bytes{0}).lanes;
    };
    EXPECT_EQ(lanes(1 << 20), same_boot_id ? 1 : 2);
    EXPECT_EQ(lanes(16 << 20), 2);
  }
  EXPECT_EQ(choose(Collective::kAllReduce, Bytes{16 << 20}, loopback_machine(2, 1), "auto", Bytes{0}).lanes, 1);
}

}  // namespace
}  // namespace tutti
