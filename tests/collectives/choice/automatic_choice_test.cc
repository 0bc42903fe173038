// Covers collectives/choice/automatic_choice.cc, collectives/choice/cost_model.cc.
// The choice by predicted times: equal on all ranks, within what the call allows, and following the costs.
#include "collectives/choice/automatic_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "collectives/choice/catalogue.h"
#include "collectives/choice/cost_model.h"
#include "core/costs_file.h"
#include "schedule/host_map.h"
#include "schedule/topologies.h"

namespace tutti {
namespace {

constexpr Collective kAll[] = {Collective::kAllReduce,  Collective::kReduceScatter, Collective::kAllGather,
                               Collective::kBroadcast,  Collective::kReduce,        Collective::kGather,
                               Collective::kScatter,    Collective::kAllToAll,      Collective::kBarrier,
                               Collective::kAllGatherV, Collective::kAllToAllV};

Machine machine_of(int ranks, bool tcp) {
  Machine machine;
  machine.ranks = ranks;
  machine.lanes = 2;
  machine.credits = 4;
  machine.network = tcp;
  machine.same_host_id = true;
  machine.same_boot_id = true;
  machine.ranks_per_core = (ranks + machine.costs.cores - 1) / machine.costs.cores;
  machine.hosts.resize(static_cast<std::size_t>(ranks));
  if (tcp) std::iota(machine.hosts.begin(), machine.hosts.end(), 0);
  return machine;
}

std::string_view name_by(const AutomaticChoice& choice, Collective collective, std::size_t bytes) {
  const Algorithm* const found = choice.find(collective, Bytes{bytes});
  return found == nullptr ? "none" : found->name;
}

TEST(AutomaticChoice, ServesEveryCall) {
  for (const bool tcp : {false, true}) {
    for (const int ranks : {1, 2, 3, 5, 8}) {
      for (const bool deterministic : {false, true}) {
        Machine machine = machine_of(ranks, tcp);
        machine.deterministic = deterministic;
        const AutomaticChoice chooser(machine);
        for (const Collective collective : kAll) {
          for (const std::size_t bytes : {0ul, 1ul, 8ul, 100ul, 4096ul, 1ul << 20}) {
            const Algorithm* const found = chooser.find(collective, Bytes{bytes});
            ASSERT_NE(found, nullptr) << name_of(collective) << " " << ranks;
            const Choice by_name = choose(collective, Bytes{bytes}, machine, found->name, Bytes{0}, chooser.hosts());
            EXPECT_FALSE(by_name.name_refused) << name_of(collective) << " " << found->name;
            EXPECT_FALSE(deterministic && !is_deterministic(*found)) << found->name;
            EXPECT_FALSE(scheduled_as(collective) != collective && !is_ragged_capable(*found)) << found->name;
          }
        }
      }
    }
  }
}

TEST(AutomaticChoice, IsForMachinesThatAreEqualHostsIncluded) {
  Machine machine = machine_of(4, true);
  machine.hosts = {0, 0, 1, 1};
  const AutomaticChoice chooser(machine);
  EXPECT_TRUE(chooser.is_for(machine));
  Machine other = machine;
  other.hosts = {0, 1, 0, 1};
  EXPECT_FALSE(chooser.is_for(other));
  EXPECT_FALSE(AutomaticChoice(other).is_for(machine));
  other.hosts.clear();
  EXPECT_FALSE(chooser.is_for(other));
  EXPECT_FALSE(AutomaticChoice(other).is_for(machine));
  other = machine;
  other.credits = 8;
  EXPECT_FALSE(chooser.is_for(other));
  other = machine;
  other.ranks = 2;
  other.hosts = {0, 0};
  EXPECT_FALSE(chooser.is_for(other));
}

std::vector<std::string> candidates(const Machine& machine, Collective collective, std::size_t bytes,
                                    std::string_view usual) {
  const AutomaticChoice chooser(machine);
  std::vector<std::string> names;
  for (const Algorithm* const algorithm :
       CostModel(machine, chooser.hosts()).candidates_for(collective, Bytes{bytes}, usual))
    names.emplace_back(algorithm->name);
  return names;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

TEST(AutomaticChoice, LooksAtEachProgramOnce) {
  Machine machine = machine_of(8, true);
  machine.same_host_id = machine.same_boot_id = false;
  machine.hosts = {0, 0, 0, 0, 1, 1, 1, 1};
  const std::vector<std::string> first = candidates(machine, Collective::kAllReduce, 1 << 20, "all_pairs");
  EXPECT_TRUE(has(first, "scatter_exchange_2"));
  EXPECT_FALSE(has(first, "scatter_exchange_3")) << "it is the same: two hosts have no third round";
  const std::vector<std::string> usual = candidates(machine, Collective::kAllReduce, 1 << 20, "scatter_exchange_3");
  EXPECT_TRUE(has(usual, "scatter_exchange_3"));
  EXPECT_FALSE(has(usual, "scatter_exchange_2"));
  const std::vector<std::string> gathers = candidates(machine, Collective::kGather, 1 << 10, "all_pairs");
  EXPECT_TRUE(has(gathers, "knomial_4"));
  EXPECT_TRUE(has(gathers, "hierarchical_leaders")) << "it is the same only if rank 0 is the root";
  const std::vector<std::string> pair = candidates(machine_of(2, false), Collective::kBroadcast, 1 << 20, "all_pairs");
  EXPECT_TRUE(has(pair, "tree") || has(pair, "all_pairs"));
  EXPECT_TRUE(has(pair, "chain")) << "its tiles are smaller";
}

TEST(AutomaticChoice, IsTheSameForAllWhoAskAtOnce) {
  const AutomaticChoice shared(machine_of(4, true));
  constexpr int kThreads = 4;
  std::vector<std::vector<const Algorithm*>> found(kThreads);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::size_t bytes = 1; bytes <= 1 << 20; bytes *= 4)
        found[static_cast<std::size_t>(thread)].push_back(shared.find(Collective::kAllReduce, Bytes{bytes}));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const AutomaticChoice alone(machine_of(4, true));
  for (const auto& one : found) {
    std::size_t bytes = 1;
    for (const Algorithm* algorithm : one) {
      EXPECT_EQ(algorithm, alone.find(Collective::kAllReduce, Bytes{bytes})) << bytes;
      bytes *= 4;
    }
  }
}

TEST(AutomaticChoice, FollowsTheCosts) {
  Machine free_messages = machine_of(8, true);
  free_messages.costs.tcp = LinkCosts{1, 1, 1, 100'000, 100'000, 0, 0};
  free_messages.costs.cores = 8;
  Machine dear_messages = machine_of(8, true);
  dear_messages.costs.tcp = LinkCosts{100'000'000, 100'000'000, 100'000'000, 1, 1, 0, 0};
  dear_messages.costs.cores = 8;
  const AutomaticChoice cheap(free_messages), dear(dear_messages);
  // Bytes alone count: each crosses as few links as it can. Messages alone count: there are as few as can be.
  EXPECT_NE(name_by(cheap, Collective::kAllReduce, 1 << 20), "recursive_doubling");
  EXPECT_NE(name_by(cheap, Collective::kAllReduce, 1 << 20), "all_pairs");
  EXPECT_EQ(name_by(dear, Collective::kAllReduce, 8), "recursive_doubling");
  EXPECT_EQ(name_by(dear, Collective::kAllToAll, 1 << 10), "bruck");
}

TEST(AutomaticChoice, SizesOfAGroupGoTogether) {
  const AutomaticChoice chooser(machine_of(8, true));
  for (std::size_t octave = 2; octave < 24; ++octave) {
    const std::size_t end = std::size_t{1} << octave;
    const std::size_t middle = end - end / 4;
    EXPECT_EQ(name_by(chooser, Collective::kAllReduce, end / 2 + 1), name_by(chooser, Collective::kAllReduce, middle));
    EXPECT_EQ(name_by(chooser, Collective::kAllReduce, middle + 1), name_by(chooser, Collective::kAllReduce, end));
  }
}

TEST(AutomaticChoice, BearsAnyCostsAndSizes) {
  for (const char* number : {"0", "1", "2147483647"}) {
    std::string text;
    Costs costs;
    for (std::string line :
         {"latency", "send_overhead", "recv_overhead", "send_kib", "recv_kib", "wire_kib", "long_overhead"})
      text += "shm." + line + " " + number + "\ntcp." + line + " " + number + "\n";
    for (std::string line : {"call", "step", "reduce_kib", "copy_kib", "handover", "memory_kib"})
      text += line + " " + number + "\n";
    ASSERT_TRUE(parse_costs(text, "text", &costs).ok());
    for (const bool tcp : {false, true}) {
      for (const bool same_host_id : {false, true}) {
        Machine machine = machine_of(8, tcp);
        machine.costs = costs;
        machine.same_host_id = same_host_id;
        machine.max_message = Bytes{std::size_t{1} << 30};
        const AutomaticChoice chooser(machine);
        for (const Collective collective : kAll)
          for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, std::size_t{1} << 31, std::size_t{1} << 47})
            EXPECT_NE(chooser.find(collective, Bytes{bytes}), nullptr) << number << name_of(collective) << bytes;
      }
    }
  }
}

/// Closed forms bear them, too. A machine whose ranks are connected by tcp but share one host gets an answer.
TEST(AutomaticChoice, BearsAnyCostsOfANetwork) {
  HostList unequal(70, 0);
  for (int host = 1; host < 5; ++host) unequal.push_back(host);
  for (const HostList& hosts : {HostList{0, 0, 0, 0}, HostList{0, 0, 1, 1, 2, 2}, uniform_hosts(11, 1, false),
                                uniform_hosts(1024, 8, false), unequal}) {
    for (const Time cost : {Time{0}, Time{1}, Time{INT32_MAX}}) {
      Machine machine = machine_of(static_cast<int>(hosts.size()), true);
      machine.hosts = hosts;
      machine.network = true;
      machine.same_host_id = machine.same_boot_id = false;
      LinkCosts& tcp = machine.costs.tcp;
      tcp = machine.costs.shm = LinkCosts{cost, cost, cost, cost, cost, cost, cost};
      machine.costs.reduce_kib = machine.costs.memory_kib = cost;
      const AutomaticChoice chooser(machine);
      for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, std::size_t{1} << 31, std::size_t{1} << 47}) {
        for (const Collective collective : kAll) EXPECT_NE(chooser.find(collective, Bytes{bytes}), nullptr);
        const Algorithm* const found = chooser.find(Collective::kAllReduce, Bytes{bytes});
        ASSERT_NE(found, nullptr);
        // For so many bytes an algorithm that sends all of them several times is never right.
        if (bytes > std::size_t{1} << 40 && cost == INT32_MAX && hosts.size() > 10) {
          EXPECT_STRNE(found->name, "recursive_doubling");
          EXPECT_STRNE(found->name, "hierarchical_leaders");
        }
      }
    }
  }
}

/// What is known of the network between hosts counts there, and not on the loopback of one.
TEST(AutomaticChoice, KnowsTheNetworkFromTheLoopback) {
  Machine machine = machine_of(8, true);
  const LinkCosts loopback = machine.tcp_costs();
  machine.costs.network_latency = 2'000'000'000;
  machine.costs.network_wire_kib = 1;
  EXPECT_EQ(machine.tcp_costs(), loopback);
  machine.same_host_id = false;
  EXPECT_EQ(machine.tcp_costs().latency, 2'000'000'000);
  EXPECT_EQ(machine.tcp_costs().wire_kib, 1);
  EXPECT_TRUE(AutomaticChoice::is_modelled(machine));
  // Each hop takes 2 ms, and bytes take nearly nothing: one hop.
  EXPECT_EQ(name_by(AutomaticChoice(machine), Collective::kAllReduce, 1 << 16), "all_pairs");
}

TEST(AutomaticChoice, PrefersThresholdsWithinTheMargin) {
  const Time times[] = {100, 112, 104};
  EXPECT_EQ(CostModel::pick(times, 1, 20), 1u);
  EXPECT_EQ(CostModel::pick(times, 1, 5), 0u);
  EXPECT_EQ(CostModel::pick(times, 2, 5), 2u);
  EXPECT_EQ(CostModel::pick(times, 3, 20), 0u) << "prefers none";
}

/// The time of a call by the whole simulation, of which the choice leaves out what repeats and what is slow.
Time whole_time(const AutomaticChoice& chooser, const Algorithm& algorithm, Collective collective, std::size_t bytes) {
  const Machine& machine = chooser.machine();
  const Choice choice = choose(collective, Bytes{bytes}, machine, algorithm.name, Bytes{0}, chooser.hosts());
  if (choice.name_refused) return CostModel::kNever;
  SimulatedCall call;
  call.shape = Shape{machine.ranks, 0, 0, choice.lanes, chooser.hosts()};
  call.block = Bytes{bytes};
  call.tile = choice.tile_bytes;
  call.credits = machine.credits;
  call.repeated = !is_rooted(collective);
  Network network;
  network.costs = machine.costs;
  network.costs.tcp = machine.tcp_costs();
  network.tcp = machine.network;
  network.same_boot_id = machine.same_boot_id;
  SimulationLimits limits;
  limits.passes = call.repeated ? 96 : 256;
  return Simulator().simulate(algorithm, call, network, limits).time;
}

TEST(AutomaticChoice, TakesNoMuchSlowerOne) {
  for (const HostList& hosts :
       {HostList{0, 1, 2, 3}, HostList{0, 0, 1, 1}, HostList{0, 1, 2, 3, 4}, HostList{0, 0, 0, 0, 0, 0}}) {
    const bool one_host = hosts.back() == 0;
    Machine machine = machine_of(static_cast<int>(hosts.size()), !one_host);
    machine.hosts = hosts;
    machine.same_host_id = machine.same_boot_id = one_host;
    machine.costs.tcp.wire_kib = 80'000;
    machine.costs.cores = one_host ? 2 : 8;
    const AutomaticChoice chooser(machine);
    const CostModel model(machine, chooser.hosts());
    for (const Collective collective : kAll) {
      if (scheduled_as(collective) != collective) continue;
      for (const std::size_t bytes :
           {std::size_t{8}, std::size_t{1} << 14, std::size_t{1} << 20, std::size_t{6} << 20}) {
        Time best = CostModel::kNever;
        for (const Algorithm& algorithm : catalogue())
          if (model.is_candidate(algorithm, collective))
            best = std::min(best, whole_time(chooser, algorithm, collective, bytes));
        ASSERT_NE(best, CostModel::kNever);
        const Algorithm* const found = chooser.find(collective, Bytes{bytes});
        EXPECT_LE(whole_time(chooser, *found, collective, bytes), best / 100 * (103 + CostModel::margin(machine)))
            << name_of(collective) << ", " << bytes << " bytes on " << hosts.size() << " ranks: " << found->name;
      }
    }
  }
}

TEST(AutomaticChoice, LeavesUnknownLinksAndManyRanksToThresholds) {
  Machine apart = machine_of(4, true);
  apart.same_host_id = false;
  EXPECT_FALSE(AutomaticChoice::is_modelled(apart)) << "the built-in costs say nothing of that network";
  apart.costs.tcp.wire_kib = 8'000'000;
  EXPECT_TRUE(AutomaticChoice::is_modelled(apart));
  EXPECT_TRUE(AutomaticChoice::is_modelled(machine_of(8, false)));
  EXPECT_FALSE(AutomaticChoice::is_modelled(machine_of(9, false)));
  EXPECT_FALSE(AutomaticChoice::is_modelled(machine_of(1, false)));
  const AutomaticChoice many(machine_of(100, false));
  EXPECT_EQ(name_by(many, Collective::kAllReduce, 1 << 20),
            automatic_algorithm(Collective::kAllReduce, Bytes{1 << 20}, many.machine(), many.hosts()));
}

}  // namespace
}  // namespace tutti
