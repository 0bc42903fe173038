// Covers schedule/simulator/simul*.cc, schedule/simulator/symmetry.cc. The simulator against times worked out by hand,
// and its short cuts against the long way.
#include "schedule/simulator/simulator.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "collectives/choice/catalogue.h"
#include "schedule/host_map.h"
#include "schedule/simulator/simulated_network.h"
#include "schedule/topologies.h"

namespace tutti {
namespace {

constexpr std::size_t kKib = 1024;

/// Costs that no two of which add up to a third.
Network plain_network(bool tcp = false) {
  Network network;
  Costs& costs = network.costs;
  costs.shm = LinkCosts{1'000'000, 11'000, 23'000, 101, 211, 0, 1013};
  costs.tcp = LinkCosts{3'000'000, 51'000, 73'000, 503, 709, 0, 0};
  costs.call = costs.memory_kib = 0;
  costs.step = 7;
  costs.reduce_kib = 307;
  costs.copy_kib = 401;
  costs.handover = 5'000'000;
  costs.cores = 1024;
  network.tcp = tcp;
  return network;
}

SimulatedCall call_of(std::int32_t ranks, std::size_t bytes, std::size_t tile = 0) {
  SimulatedCall call;
  call.shape = Shape{ranks, 0, 0, 1, nullptr};
  call.block = Bytes{bytes};
  call.tile = Bytes{tile == 0 ? bytes : tile};
  return call;
}

Prediction predict(Collective collective, const char* name, const SimulatedCall& call, const Network& network,
                   const SimulationLimits& limits = {}) {
  Simulator simulator;
  const Prediction prediction = simulator.simulate(*find_algorithm(collective, name), call, network, limits);
  EXPECT_NE(prediction.method, SimulationMethod::kTooLarge);
  return prediction;
}

/// What steps of so many KiB cost on one kind of link.
struct StepCosts {
  StepCosts(const Costs& costs, const LinkCosts& link, Time kib)
      : send(link.send_overhead + kib * link.send_kib),
        recv(link.recv_overhead + link.long_overhead + kib * link.recv_kib),
        reduce(kib * costs.reduce_kib),
        copy(kib * costs.copy_kib),
        step(costs.step),
        latency(link.latency) {}
  Time send, recv, reduce, copy, step, latency;
};

TEST(Simulator, RingIsAChainOfEqualSteps) {
  const Network network = plain_network();
  for (const std::int32_t n : {2, 3, 5, 8}) {
    const Time kib = 6;
    const StepCosts c(network.costs, network.costs.shm, kib);
    const Time first = c.step + c.send;
    const Time add = c.latency + c.step + c.recv + 2 * c.reduce + c.send;
    const Time pass_on = c.latency + c.step + c.recv + c.copy + c.send;
    const Time last = c.latency + c.step + c.recv + c.copy;
    const Time expected = first + (n - 1) * add + (n - 2) * pass_on + last;
    const auto bytes = static_cast<std::size_t>(kib * n) * kKib;
    EXPECT_EQ(predict(Collective::kAllReduce, "ring", call_of(n, bytes), network).time, expected) << n;
  }
}

TEST(Simulator, RecursiveDoublingIsALogarithmOfRounds) {
  const Network network = plain_network();
  const StepCosts c(network.costs, network.costs.shm, 3);
  for (const std::int32_t rounds : {1, 2, 3, 6}) {
    const Time round = c.latency + c.step + c.recv + 2 * c.reduce;
    const Time expected = c.step + c.send + rounds * round + (rounds - 1) * c.send;
    const auto call = call_of(1 << rounds, 3 * kKib);
    EXPECT_EQ(predict(Collective::kAllReduce, "recursive_doubling", call, network).time, expected) << rounds;
  }
}

TEST(Simulator, BinomialTreeEndsWithItsLongestPath) {
  const Network network = plain_network();
  const StepCosts c(network.costs, network.costs.shm, 4);
  // Root, place 4, place 6, place 7: the root serves place 4 first, and that one place 6.
  const Time receive = c.latency + c.step + c.recv + c.copy;
  const Time expected = c.step + c.copy + c.send + 2 * (receive + c.send) + receive;
  EXPECT_EQ(predict(Collective::kBroadcast, "tree", call_of(8, 4 * kKib), network).time, expected);
}

TEST(Simulator, AllPairsWriteOnceInSharedMemory) {
  const Network network = plain_network();
  const StepCosts c(network.costs, network.costs.shm, 2);
  for (const Time n : {2, 3, 7}) {
    const Time expected = c.step + c.send + c.latency + c.step + (n - 1) * c.recv + n * c.reduce;
    const auto call = call_of(static_cast<std::int32_t>(n), 2 * kKib);
    EXPECT_EQ(predict(Collective::kAllReduce, "all_pairs", call, network).time, expected) << n;
  }
}

TEST(Simulator, AllPairsWriteToEachPeerOverTcp) {
  const Network network = plain_network(true);
  const StepCosts c(network.costs, network.costs.tcp, 2);
  for (const Time n : {2, 3, 7}) {
    const Time expected = c.step + (n - 1) * c.send + c.latency + c.step + (n - 1) * c.recv + n * c.reduce;
    const auto call = call_of(static_cast<std::int32_t>(n), 2 * kKib);
    EXPECT_EQ(predict(Collective::kAllReduce, "all_pairs", call, network).time, expected) << n;
  }
}

TEST(Simulator, WhatComesFromASocketIsReadToItsPlace) {
  const Network network = plain_network(true);
  const StepCosts c(network.costs, network.costs.tcp, 2);
  const Time expected = c.step + c.copy + c.send + c.latency + c.step + c.recv;
  EXPECT_EQ(predict(Collective::kBroadcast, "chain", call_of(2, 2 * kKib), network).time, expected);
}

/// Only links cost anything.
Network wires_only(Time latency, Time wire_kib) {
  Network network;
  network.costs = Costs{};
  network.costs.shm = LinkCosts{};
  network.costs.tcp = LinkCosts{latency, 0, 0, 0, 0, wire_kib, 0};
  network.costs.call = network.costs.step = network.costs.reduce_kib = network.costs.copy_kib = 0;
  network.costs.memory_kib = 0;
  network.tcp = true;
  return network;
}

TEST(Simulator, MessagesShareALink) {
  const Network network = wires_only(500, 10'000);
  // The root's link out carries three messages, or its link in.
  const Time expected = 500 + 3 * 8 * 10'000;
  EXPECT_EQ(predict(Collective::kBroadcast, "all_pairs", call_of(4, 8 * kKib), network).time, expected);
  EXPECT_EQ(predict(Collective::kReduce, "all_pairs", call_of(4, 8 * kKib), network).time, expected);
  EXPECT_EQ(predict(Collective::kScatter, "all_pairs", call_of(4, 8 * kKib), network).time, expected);
  // A link carries both directions at once.
  EXPECT_EQ(predict(Collective::kAllToAll, "all_pairs", call_of(4, 8 * kKib), network).time, expected);
}

/// A program of many passes is simulated in part. What it takes in all is never less than the links need.
TEST(Simulator, NoCallIsFasterThanItsLinks) {
  const Network network = wires_only(500, 10'000);
  for (const char* const name : {"all_pairs", "tree", "knomial_4"}) {
    for (const Collective collective : {Collective::kGather, Collective::kScatter}) {
      SimulatedCall call = call_of(8, 4096 * kKib);
      call.tile = Bytes{64 * kKib};
      const Prediction prediction = predict(collective, name, call, network);
      ASSERT_LT(prediction.passes, prediction.tiles) << name;
      const Time bytes = 7 * Time{4096} * 10'000;
      EXPECT_GE(prediction.time, bytes) << name;
      EXPECT_LE(prediction.time, bytes + bytes / 10) << name;
    }
  }
}

TEST(Simulator, ManyMessagesWaitForTheirTurnOnALink) {
  const Network network = wires_only(500, 10'000);
  // More than share a link at a time: it is never idle for all that.
  for (const std::int32_t ranks : {100, 700, 1200}) {
    const Time expected = 500 + (ranks - 1) * Time{8 * 10'000};
    for (const Collective collective : {Collective::kScatter, Collective::kGather}) {
      const Time time = predict(collective, "all_pairs", call_of(ranks, 8 * kKib), network).time;
      EXPECT_NEAR(static_cast<double>(time), static_cast<double>(expected), 0.001 * static_cast<double>(expected));
    }
    const Time exchange = predict(Collective::kAllToAll, "all_pairs", call_of(ranks, 8 * kKib), network).time;
    EXPECT_LT(exchange, 2 * expected);
    EXPECT_GE(exchange, expected);
  }
}

/// Until nothing happens any more; returns when it happened last.
Time run_all(SimulatedNetwork* network, EventQueue* events, Time now) {
  for (;;) {
    if (network->is_unsettled() && (events->empty() || events->next_time() > now)) network->settle(now, *events);
    if (events->empty()) return now;
    const Event event = events->pop();
    now = event.time;
    network->happen(event.subject, now, *events);
  }
}

/// A number may get an event of the message that had it before, at the very time at which its own message sets out.
TEST(SimulatedNetwork, AMessageWaitsForItsTurnOnce) {
  constexpr std::uint32_t kMessages = 513;  // one more than share a link
  SimulatedNetwork network;
  network.reset(wires_only(500, 10'000), 2, 2);
  EventQueue events;
  Transit transit;
  transit.to_host = 1;
  transit.bytes = 8 * kKib;
  for (; transit.link < kMessages; ++transit.link) network.send(transit, events);
  events.push(0, Event::Kind::kWire, kMessages - 1);
  transit.sent = run_all(&network, &events, 0);
  // Nobody is on the link any more, so the next message has all of it.
  network.send(transit, events);
  EXPECT_EQ(run_all(&network, &events, transit.sent), transit.sent + 8 * 10'000);
}

TEST(Simulator, ALeafsWayUpIsShared) {
  Network network = wires_only(500, 10'000);
  network.tree.hosts_per_leaf = 2;
  for (const std::int32_t percent : {100, 200, 400}) {
    network.tree.oversubscription_percent = percent;
    // Neighbours first, below one switch; then both hosts of a leaf send to the other leaf at once.
    const Time near = 500 + 8 * 10'000;
    const Time far = 500 + 8 * 10'000 * percent / 100;
    EXPECT_EQ(predict(Collective::kAllReduce, "recursive_doubling", call_of(4, 8 * kKib), network).time, near + far)
        << percent;
  }
}

TEST(Simulator, HostsStandOnTheLeavesThatTheirPlacesSay) {
  Network network = wires_only(500, 10'000);
  network.tree.hosts_per_leaf = 2;
  network.tree.oversubscription_percent = 300;
  network.tree.places = {0, 2, 3, 1};  // nobody stands beside who is met in either round
  EXPECT_EQ(predict(Collective::kAllReduce, "recursive_doubling", call_of(4, 8 * kKib), network).time,
            2 * (500 + 3 * 8 * 10'000));
  network.tree.places = {3, 2, 1, 0};
  EXPECT_EQ(predict(Collective::kAllReduce, "recursive_doubling", call_of(4, 8 * kKib), network).time,
            (500 + 8 * 10'000) + (500 + 3 * 8 * 10'000));
}

TEST(Simulator, ASlowLinkIsSlowBothWays) {
  Network network = wires_only(500, 10'000);
  const auto scatter = [&] { return predict(Collective::kScatter, "all_pairs", call_of(4, 8 * kKib), network).time; };
  const auto gather = [&] { return predict(Collective::kGather, "all_pairs", call_of(4, 8 * kKib), network).time; };
  network.slow_hosts = {SlowHost{0, 100, 300}};
  EXPECT_EQ(scatter(), 500 + 3 * 3 * 8 * 10'000);
  EXPECT_EQ(gather(), 500 + 3 * 3 * 8 * 10'000);
  // Another host than the root gets a third of what the root's link carries. Its own link counts if it carries less.
  network.slow_hosts = {SlowHost{2, 100, 300}};
  EXPECT_EQ(scatter(), 500 + 3 * 8 * 10'000);
  network.slow_hosts = {SlowHost{2, 100, 600}};
  EXPECT_EQ(scatter(), 500 + 6 * 8 * 10'000);
}

TEST(Simulator, ASlowHostTakesLongerForItsWork) {
  Network network = plain_network(true);
  const StepCosts c(network.costs, network.costs.tcp, 3);
  network.slow_hosts = {SlowHost{1, 200, 100}};
  // The message of the slow host is late, and the fast one waits for it; the slow one has the other's in time.
  const Time sent_late = 2 * (c.step + c.send);
  const Time fast = sent_late + c.latency + c.step + c.recv + 2 * c.reduce;
  const Time slow = std::max(sent_late, c.step + c.send + c.latency) + 2 * (c.step + c.recv + 2 * c.reduce);
  EXPECT_EQ(predict(Collective::kAllReduce, "recursive_doubling", call_of(2, 3 * kKib), network).time,
            std::max(fast, slow));
  EXPECT_GT(slow, fast);
}

TEST(Simulator, ASlowHostsMemoryIsSlow) {
  Network network = plain_network(true);
  network.costs.memory_kib = 10'000'000;
  network.costs.cache_bytes = 8 * kKib;
  const auto time = [&] { return predict(Collective::kAllReduce, "ring", call_of(4, 64 * kKib), network).time; };
  const Time alike = time();
  network.slow_hosts = {SlowHost{2, 300, 100}};
  EXPECT_GT(time(), 2 * alike);
  EXPECT_LE(time(), 3 * alike);
}

TEST(Simulator, RanksOfAHostUseSharedMemoryAndOneLink) {
  Network network = wires_only(500, 10'000);
  const Topology topology(uniform_hosts(2, 2, false));
  SimulatedCall call = call_of(4, 8 * kKib);
  call.shape.hosts = &topology.map();
  // The first round stays within the hosts and costs nothing; in the second, two messages leave each host.
  EXPECT_EQ(predict(Collective::kAllReduce, "recursive_doubling", call, network).time, 500 + 2 * 8 * 10'000);
}

TEST(Simulator, ASenderWaitsForACredit) {
  const Network network = plain_network();
  SimulatedCall call = call_of(2, 3 * 64 * kKib, 64 * kKib);
  const StepCosts c(network.costs, network.costs.shm, 64);
  const Time send = c.step + c.copy + c.send;
  const Time receive = c.step + c.recv + c.copy;
  call.credits = 1;
  EXPECT_EQ(predict(Collective::kBroadcast, "chain", call, network).time, 3 * (send + receive) + 5 * c.latency);
  call.credits = 3;
  EXPECT_EQ(predict(Collective::kBroadcast, "chain", call, network).time,
            std::max(3 * send + c.latency + receive, send + c.latency + 3 * receive));
}

TEST(Simulator, RanksShareCores) {
  Network network = plain_network();
  network.costs.cores = 1;
  const StepCosts c(network.costs, network.costs.shm, 2);
  const Time send = c.step + c.send;
  const Time reduce = c.step + c.recv + 2 * c.reduce;
  // Rank 0 sends, the core goes to rank 1, which sends and ends, and back to rank 0 when that message is seen.
  EXPECT_EQ(predict(Collective::kAllReduce, "all_pairs", call_of(2, 2 * kKib), network).time,
            2 * send + std::max(c.latency, reduce) + reduce + 2 * network.costs.handover);
  network.costs.cores = 2;
  EXPECT_EQ(predict(Collective::kAllReduce, "all_pairs", call_of(2, 2 * kKib), network).time,
            send + reduce + c.latency);
}

TEST(Simulator, HostsOfOneBootIdShareTheirCores) {
  Network network = plain_network(true);
  network.costs.cores = 2;
  const Time apart = predict(Collective::kAllReduce, "recursive_doubling", call_of(4, 8), network).time;
  network.same_boot_id = true;
  const Time together = predict(Collective::kAllReduce, "recursive_doubling", call_of(4, 8), network).time;
  EXPECT_GE(together, apart + 2 * network.costs.handover);
}

TEST(Simulator, MemoryServesAllRanksOfAHost) {
  Network network = plain_network();
  network.costs.memory_kib = 100'000;
  network.costs.cache_bytes = 512 * kKib;
  // Input and output of two ranks: they fit, and they do not.
  const auto time = [&](std::size_t bytes) {
    return predict(Collective::kAllReduce, "all_pairs", call_of(2, bytes), network).time;
  };
  const StepCosts c(network.costs, network.costs.shm, 128);
  EXPECT_EQ(time(128 * kKib), 2 * c.step + c.send + c.latency + c.recv + 2 * c.reduce);
  // Each rank reads its input, finds it in the cache when it needs it again, and writes its output.
  EXPECT_NEAR(static_cast<double>(time(256 * kKib)), 2 * 2 * 256 * 100e3, 10);  // each step rounds down
}

TEST(Simulator, TilesGoOnAtTheSamePace) {
  const Network network = plain_network(true);
  SimulationLimits all;
  all.passes = 1000;
  for (const char* name : {"chain", "tree", "double_tree"}) {
    for (const std::size_t bytes : {100 * 32 * kKib, 100 * 32 * kKib + 8 * kKib}) {
      const auto call = call_of(6, bytes, 32 * kKib);
      const Prediction long_way = predict(Collective::kBroadcast, name, call, network, all);
      const Prediction short_cut = predict(Collective::kBroadcast, name, call, network);
      EXPECT_EQ(long_way.passes, long_way.tiles);
      EXPECT_EQ(short_cut.passes, 8u);
      EXPECT_NEAR(static_cast<double>(short_cut.time), static_cast<double>(long_way.time),
                  0.05 * static_cast<double>(long_way.time))
          << name;
    }
  }
}

TEST(Simulator, RepeatedCallsOverlap) {
  const Network network = plain_network();
  SimulatedCall call = call_of(2, 64 * kKib);
  const StepCosts c(network.costs, network.costs.shm, 64);
  call.repeated = true;
  call.credits = 64;
  // In a loop of broadcasts the root does not wait for its readers before it has run out of credits.
  EXPECT_EQ(predict(Collective::kBroadcast, "chain", call, network).time,
            c.step + std::max(c.copy + c.send, c.recv + c.copy));
}

TEST(Simulator, EqualQuestionsHaveEqualAnswers) {
  const Network network = plain_network(true);
  Simulator simulator;
  const Algorithm& ring = *find_algorithm(Collective::kAllReduce, "ring");
  const Time first = simulator.simulate(ring, call_of(7, 10'000), network).time;
  simulator.simulate(*find_algorithm(Collective::kAllToAll, "all_pairs"), call_of(50, 10'000), network);
  EXPECT_EQ(simulator.simulate(ring, call_of(7, 10'000), network).time, first);
}

TEST(Simulator, GivesUpWhereItWouldTakeTooLong) {
  SimulationLimits limits;
  limits.steps = 1000;
  Simulator simulator;
  const Algorithm& tree = *find_algorithm(Collective::kBroadcast, "tree");
  EXPECT_EQ(simulator.simulate(tree, call_of(3000, 8), plain_network(true), limits).method,
            SimulationMethod::kTooLarge);
}

TEST(Simulator, ATraceTellsAllStepsInTheirOrder) {
  Trace trace;
  Simulator simulator;
  const Algorithm& ring = *find_algorithm(Collective::kAllReduce, "ring");
  const Prediction prediction = simulator.simulate(ring, call_of(4, 4096), plain_network(true), {}, &trace);
  EXPECT_EQ(trace.steps.size(), 4u * 7);
  EXPECT_EQ(trace.messages.size(), 4u * 6);
  Time last = 0;
  for (const SimulatedStep& step : trace.steps) {
    EXPECT_LT(step.begin, step.end);
    last = std::max(last, step.end);
  }
  EXPECT_EQ(last, prediction.time);
  for (const SimulatedMessage& message : trace.messages) EXPECT_LT(message.sent, message.seen);
}

/// Every algorithm that says that some ranks stand for all, the long way and the short one.
class Symmetry : public ::testing::TestWithParam<Collective> {};

void expect_symmetry(const Algorithm& algorithm, const HostList& hosts, std::int32_t lanes, const Network& network,
                     int* seen) {
  const auto ranks = static_cast<std::int32_t>(hosts.size());
  const Topology topology(hosts);
  SimulatedCall call = call_of(ranks, static_cast<std::size_t>(ranks) * 2 * 3 * 64);
  call.shape.lanes = std::min(lanes, algorithm.max_lanes);
  call.shape.hosts = topology.map().hosts == ranks ? nullptr : &topology.map();
  if (algorithm.collective != Collective::kAllReduce) call.block = call.tile = Bytes{1536};
  if (symmetry_period(algorithm, call.shape, network) == ranks) return;
  SimulationLimits one_by_one;
  one_by_one.symmetry = false;
  Simulator simulator;
  const Prediction long_way = simulator.simulate(algorithm, call, network, one_by_one);
  const Prediction short_cut = simulator.simulate(algorithm, call, network);
  EXPECT_EQ(long_way.method, SimulationMethod::kEvents);
  EXPECT_EQ(short_cut.method, SimulationMethod::kSymmetry);
  EXPECT_EQ(short_cut.time, long_way.time)
      << name_of(algorithm.collective) << " " << algorithm.name << ", " << ranks << " ranks on " << topology.map().hosts
      << " hosts, " << call.shape.lanes << " lanes";
  ++*seen;
}

TEST_P(Symmetry, IsWhatAllRanksDo) {
  Network network = plain_network(true);
  int seen = 0;
  for (const Time wire : {0, 9'000}) {
    network.costs.tcp.wire_kib = wire;
    for (const Algorithm& algorithm : catalogue()) {
      if (algorithm.collective != GetParam()) continue;
      for (const std::int32_t lanes : {1, 2}) {
        for (const int n : {16, 17, 24, 32, 40})
          expect_symmetry(algorithm, uniform_hosts(n, 1, false), lanes, network, &seen);
        for (const int each : {2, 4, 6})
          expect_symmetry(algorithm, uniform_hosts(6, each, false), lanes, network, &seen);
      }
    }
  }
  EXPECT_GT(seen, 20);
}

INSTANTIATE_TEST_SUITE_P(OfTheCatalogue, Symmetry,
                         ::testing::Values(Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
                                           Collective::kAllToAll, Collective::kBarrier),
                         [](const auto& info) { return std::string(name_of(info.param)); });

/// Beyond the caches, also of more ranks than are looked at one by one.
TEST(Simulator, SeesAChunkComeFromMemoryOnceOnAnyHost) {
  Network network = plain_network(true);
  network.costs.memory_kib = 90'000;
  network.costs.cache_bytes = 1;
  network.costs.tcp.wire_kib = 9'000;
  int seen = 0;
  for (const char* const name : {"hierarchical", "ring"}) {
    const Algorithm& algorithm = *find_algorithm(Collective::kAllReduce, name);
    expect_symmetry(algorithm, uniform_hosts(24, 4, false), 1, network, &seen);
  }
  EXPECT_EQ(seen, 2);
}

TEST(SymmetryPeriod, IsWholeWhereRanksDiffer) {
  const Network network = plain_network(true);
  const auto period = [&](Collective collective, const char* name, const HostMap* hosts, int n, const Network& net) {
    return symmetry_period(*find_algorithm(collective, name), Shape{n, 0, 0, 1, hosts}, net);
  };
  EXPECT_EQ(period(Collective::kAllReduce, "ring", nullptr, 64, network), 1);
  EXPECT_EQ(period(Collective::kBroadcast, "chain", nullptr, 64, network), 64);
  EXPECT_EQ(period(Collective::kAllReduce, "recursive_doubling", nullptr, 64, network), 64);
  const Topology even(uniform_hosts(8, 8, false));
  EXPECT_EQ(period(Collective::kAllReduce, "ring", &even.map(), 64, network), 8);
  const Topology dealt(uniform_hosts(8, 8, true));
  EXPECT_EQ(period(Collective::kAllReduce, "ring", &dealt.map(), 64, network), 64);
  Network tree = network;
  tree.tree.hosts_per_leaf = 2;
  EXPECT_EQ(period(Collective::kAllReduce, "ring", &even.map(), 64, tree), 16);
  tree.tree.places = {0, 2, 4, 6, 1, 3, 5, 7};
  EXPECT_EQ(period(Collective::kAllReduce, "ring", &even.map(), 64, tree), 64);
  Network slow = network;
  slow.slow_hosts = {SlowHost{3, 200, 100}};
  EXPECT_EQ(period(Collective::kAllReduce, "ring", &even.map(), 64, slow), 64);
  Network same_boot_id = network;
  same_boot_id.same_boot_id = true;
  EXPECT_EQ(period(Collective::kAllReduce, "ring", nullptr, 64, same_boot_id), 64);
}

}  // namespace
}  // namespace tutti
