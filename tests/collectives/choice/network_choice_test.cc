// Covers collectives/choice/network_choice.cc.
// The choice where ranks span hosts.
#include "collectives/choice/network_choice.h"

#include <gtest/gtest.h>

#include <string_view>

#include "collectives/choice/catalogue.h"
#include "collectives/choice/choice.h"
#include "collectives/choice/network_machine.h"
#include "collectives/choice/plan_cache.h"
#include "schedule/tiling.h"
#include "schedule/topologies.h"

namespace tutti {
namespace {

constexpr Collective kOfferedBetweenHosts[] = {
    Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
    Collective::kBroadcast, Collective::kReduce,        Collective::kBarrier,
    Collective::kGather,    Collective::kScatter,       Collective::kAllToAll};
constexpr std::size_t kNetworkSizes[] = {
    0, 8, 4096, 16384, 65536, 131073, std::size_t{1} << 20, (std::size_t{1} << 30) + 5};

const HostList kPlacements[] = {{0, 1},
                                {0, 1, 2, 3},
                                {0, 0, 1, 1},
                                {0, 1, 0, 1, 1},
                                uniform_hosts(12, 1, false),
                                uniform_hosts(4, 8, true),
                                uniform_hosts(2, 50, false),
                                uniform_hosts(300, 1, false)};

TEST(NetworkChoice, HasAnAlgorithmForEveryCollectiveSizeAndPlacement) {
  for (const HostList& hosts : kPlacements) {
    const Topology topology(hosts);
    for (const bool deterministic : {false, true}) {
      Machine machine = network_machine(hosts);
      machine.deterministic = deterministic;
      for (const Collective collective : kOfferedBetweenHosts) {
        for (const std::size_t bytes : kNetworkSizes) {
          const Choice choice = choose(collective, Bytes{bytes}, machine, "auto", Bytes{0}, &topology.map());
          ASSERT_NE(choice.algorithm, nullptr) << name_of(collective) << " " << bytes;
          EXPECT_EQ(choice.algorithm->collective, collective);
          EXPECT_FALSE(choice.name_refused);
          if (deterministic) {
            EXPECT_TRUE(is_deterministic(*choice.algorithm)) << choice.algorithm->name;
          }
        }
      }
    }
  }
}

TEST(NetworkChoice, VFormsGetAnAlgorithmThatServesThem) {
  for (const HostList& hosts : kPlacements) {
    const Topology topology(hosts);
    for (const Collective collective : {Collective::kAllGatherV, Collective::kAllToAllV}) {
      for (const std::size_t bytes : kNetworkSizes) {
        const Choice choice =
            choose(collective, Bytes{bytes}, network_machine(hosts), "auto", Bytes{0}, &topology.map());
        ASSERT_NE(choice.algorithm, nullptr);
        EXPECT_TRUE(is_ragged_capable(*choice.algorithm)) << choice.algorithm->name;
        EXPECT_EQ(choice.lanes, 1);
      }
    }
  }
}

TEST(NetworkChoice, HostsThatAreSharedMakeItHierarchical) {
  for (const HostList& hosts : {HostList{0, 0, 1, 1}, HostList{0, 1, 0, 1, 1}, uniform_hosts(4, 8, true)}) {
    const Topology topology(hosts);
    for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
                                        Collective::kBroadcast, Collective::kBarrier}) {
      const Bytes large{1 << 20};
      EXPECT_EQ(automatic_algorithm(collective, large, network_machine(hosts), &topology.map()), "hierarchical");
    }
    Machine machine = network_machine(hosts);
    machine.costs.cores = 8;
    EXPECT_EQ(automatic_algorithm(Collective::kAllReduce, Bytes{8}, machine, &topology.map()),
              topology.map().hosts == 2 ? "hierarchical_leaders" : "recursive_exchange");
    machine.costs.cores = 2;
    EXPECT_EQ(automatic_algorithm(Collective::kAllReduce, Bytes{8}, machine, &topology.map()), "hierarchical_leaders")
        << "one rank of a host has messages, not all of them on its few cores";
    EXPECT_EQ(automatic_algorithm(Collective::kBroadcast, Bytes{8}, network_machine(hosts), &topology.map()),
              "hierarchical_tree")
        << "few ranks, or neighbours on different hosts";
  }
}

TEST(NetworkChoice, ARankAHostMakesItFlat) {
  for (const int n : {2, 3, 4, 8, 9, 100}) {
    const Topology topology(uniform_hosts(n, 1, false));
    for (const Collective collective : kOfferedBetweenHosts) {
      for (const std::size_t bytes : kNetworkSizes) {
        const Machine machine = network_machine(uniform_hosts(n, 1, false));
        const std::string_view name = automatic_algorithm(collective, Bytes{bytes}, machine, &topology.map());
        const Algorithm& algorithm = *find_algorithm(collective, name);
        EXPECT_TRUE(!algorithm.hierarchical || algorithm.serves_alone) << name;
        EXPECT_EQ(name, automatic_algorithm(collective, Bytes{bytes}, machine)) << "a map says nothing new";
      }
    }
  }
}

TEST(NetworkChoice, ManyRanksTakeFewHops) {
  Machine flat = network_machine(uniform_hosts(1000, 1, false));
  const auto chosen = [&](Collective collective, std::size_t bytes) {
    return automatic_algorithm(collective, Bytes{bytes}, flat);
  };
  EXPECT_EQ(chosen(Collective::kAllReduce, 8), "recursive_exchange");
  EXPECT_EQ(chosen(Collective::kAllReduce, 1 << 20), "scatter_exchange_3");
  EXPECT_EQ(chosen(Collective::kAllReduce, 256 << 20), "ring");
  EXPECT_EQ(chosen(Collective::kAllGather, 64), "bruck");
  EXPECT_EQ(chosen(Collective::kAllGatherV, 64), "ring");
  EXPECT_EQ(chosen(Collective::kReduceScatter, 64), "hierarchical_rounds");
  EXPECT_EQ(chosen(Collective::kReduceScatter, 1 << 20), "ring");
  EXPECT_EQ(chosen(Collective::kBroadcast, 1 << 10), "knomial_4");
  EXPECT_EQ(chosen(Collective::kBroadcast, 1 << 20), "hierarchical_double_tree");
  flat.max_message = Bytes{8192};
  EXPECT_EQ(chosen(Collective::kAllGather, 64), "pat") << "messages hold 128 chunks";
  const HostList hosts = uniform_hosts(1000, 8, false);
  const Topology topology(hosts);
  const Machine machine = network_machine(hosts);
  EXPECT_EQ(automatic_algorithm(Collective::kAllReduce, Bytes{1 << 20}, machine, &topology.map()),
            "scatter_exchange_3");
  EXPECT_EQ(automatic_algorithm(Collective::kAllReduce, Bytes{256 << 20}, machine, &topology.map()), "hierarchical");
}

/// On one host a map changes nothing.
TEST(NetworkChoice, OneHostIsChosenForAsBefore) {
  for (const int n : {1, 2, 5, 65}) {
    const HostList hosts(static_cast<std::size_t>(n), 0);
    const Topology topology(hosts);
    Machine machine;
    machine.ranks = n;
    machine.lanes = 2;
    for (const Collective collective : kOfferedBetweenHosts) {
      for (const std::size_t bytes : kNetworkSizes) {
        const Choice with = choose(collective, Bytes{bytes}, machine, "auto", Bytes{0}, &topology.map());
        const Choice without = choose(collective, Bytes{bytes}, machine, "auto", Bytes{0});
        EXPECT_EQ(with.algorithm, without.algorithm);
        EXPECT_EQ(with.lanes, without.lanes);
        EXPECT_EQ(with.tile_bytes, without.tile_bytes);
      }
    }
  }
}

TEST(NetworkChoice, NoChunkExceedsAMessage) {
  for (const HostList& hosts : kPlacements) {
    const Topology topology(hosts);
    Machine machine = network_machine(hosts);
    for (const Algorithm& algorithm : catalogue()) {
      for (const std::size_t message : {64u, 5000u, 262144u}) {
        machine.max_message = Bytes{message};
        for (const std::size_t bytes : kNetworkSizes) {
          const Choice choice =
              choose(algorithm.collective, Bytes{bytes}, machine, algorithm.name, Bytes{0}, &topology.map());
          const Shape shape{machine.ranks, 0, 0, choice.lanes, &topology.map()};
          const bool fits = algorithm.extent(shape).message_chunks * kPartAlign.value <= message;
          ASSERT_EQ(choice.algorithm == &algorithm, fits) << algorithm.name;
          ASSERT_EQ(choice.tile_bytes.value % kPartAlign.value, 0u);
          const Extent extent = choice.algorithm->extent(shape);
          const Tiling tiling(extent, Elems{bytes}, Elems{choice.tile_bytes.value}, Elems{kPartAlign.value});
          ASSERT_LE(tiling.max_chunk().value * extent.message_chunks, message) << algorithm.name << " " << bytes;
        }
      }
    }
  }
}

/// Nobody named an algorithm: what is chosen fits, however small the messages are.
TEST(NetworkChoice, FitsSmallMessages) {
  for (const int n : {2, 3, 4, 8, 12}) {
    Machine machine = network_machine(uniform_hosts(n, 1, false));
    for (const std::size_t message : {64u, 128u, 256u, 512u, 262144u}) {
      machine.max_message = Bytes{message};
      for (const Collective collective : kOfferedBetweenHosts) {
        for (const std::size_t bytes : kNetworkSizes) {
          const Choice choice = choose(collective, Bytes{bytes}, machine, "auto", Bytes{0});
          const Extent extent = choice.algorithm->extent(Shape{n, 0, 0, choice.lanes, nullptr});
          EXPECT_LE(extent.message_chunks * kPartAlign.value, message) << choice.algorithm->name << " " << bytes;
        }
      }
    }
  }
}

TEST(NetworkChoice, FitsSmallMessagesOfHosts) {
  for (const HostList& hosts : {uniform_hosts(3, 2, false), uniform_hosts(12, 2, true), uniform_hosts(100, 3, false)}) {
    const Topology topology(hosts);
    Machine machine = network_machine(hosts);
    for (const std::size_t message : {64u, 128u, 256u, 512u, 4096u}) {
      machine.max_message = Bytes{message};
      for (const std::size_t bytes : kNetworkSizes) {
        const Choice choice = choose(Collective::kAllReduce, Bytes{bytes}, machine, "auto", Bytes{0}, &topology.map());
        const Extent extent = choice.algorithm->extent(Shape{machine.ranks, 0, 0, choice.lanes, &topology.map()});
        EXPECT_LE(extent.message_chunks * kPartAlign.value, message) << choice.algorithm->name << " " << bytes;
      }
    }
  }
}

/// A chain is many tiles long, so that its hosts work at once.
TEST(NetworkChoice, ChainsHaveManyTiles) {
  for (const HostList& hosts : {uniform_hosts(4, 2, false), uniform_hosts(4, 1, false)}) {
    const Topology topology(hosts);
    const Bytes large{16 << 20};
    const Choice choice =
        choose(Collective::kBroadcast, large, network_machine(hosts), "auto", Bytes{0}, &topology.map());
    EXPECT_GE(large.value / choice.tile_bytes.value, 32u) << choice.algorithm->name;
  }
}

TEST(NetworkChoice, PlansAreBuiltForTheTopology) {
  PlanCache cache(std::make_shared<const AutomaticChoice>(network_machine({0, 1, 0, 1})), Rank{2}, "auto", Bytes{0},
                  LogSource{});
  const Plan plan = cache.find(Collective::kAllReduce, Bytes{1 << 20}, -1);
  EXPECT_STREQ(plan.schedule->algorithm->name, "hierarchical");
  EXPECT_EQ(plan.schedule->shape.lanes, 2);
  EXPECT_EQ(plan.schedule->extent.parts, 2u * 2 * 2) << "lanes, drivers, hosts";
  ASSERT_NE(plan.schedule->shape.hosts, nullptr);
  EXPECT_EQ(plan.schedule->shape.hosts->hosts, 2);
  EXPECT_TRUE(
      is_deterministic(*cache.find_in_rank_order(Collective::kAllReduce, Bytes{1 << 20}, -1).schedule->algorithm));
}

}  // namespace
}  // namespace tutti
