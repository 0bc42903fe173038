// Covers collectives/choice/network_times.cc, collectives/choice/network_times_of_blocks.cc,
// collectives/choice/choice_by_time.cc.
// The closed forms: by hand, and the choice that they make by the simulator's times.
#include "collectives/choice/network_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "collectives/choice/choice.h"
#include "collectives/choice/simulated_cluster.h"
#include "schedule/topologies.h"
#include "support/depth.h"

namespace tutti {
namespace {

TEST(NetworkTimes, AreHopsAndBytes) {
  const HostList hosts = uniform_hosts(16, 1, false);
  const Topology topology(hosts);
  const Machine machine = cluster(hosts);
  const Time message = 2'900'000;        // overheads
  const Time copies = 170'000 + 15'000;  // a KiB sent, received and added: more than its 81,920 on the link
  const NetworkTimes of_4_kib(machine, &topology.map(), Bytes{4096});
  EXPECT_EQ(of_4_kib.leaders(), 4 * (10'000'000 + message + 4 * copies));
  // Groups of four, twice: three messages a round.
  EXPECT_EQ(of_4_kib.exchange(0), 2 * (10'000'000 + 3 * message + 12 * copies));
  // Divided by four there and back, then 1 KiB to three.
  EXPECT_EQ(of_4_kib.exchange(1), 3 * (10'000'000 + 3 * message + 3 * copies));
  const NetworkTimes of_16_kib(machine, &topology.map(), Bytes{16384});
  EXPECT_EQ(of_16_kib.ring(), 30 * (10'000'000 + message + copies));
}

TEST(NetworkTimes, AHostsLinkIsShared) {
  const HostList hosts = uniform_hosts(4, 8, false);
  const Topology topology(hosts);
  Machine machine = cluster(hosts);
  machine.costs.shm = LinkCosts{};
  machine.costs.reduce_kib = machine.costs.copy_kib = 0;
  const NetworkTimes times(machine, &topology.map(), Bytes{32768});
  // Three messages of 4 KiB from each of eight drivers: 96 KiB on the link, 12 KiB a processor.
  EXPECT_EQ(times.exchange(0), 10'000'000 + 3 * 2'900'000 + 96 * 81'920);
}

TEST(NetworkTimes, GuestsCostTwoHops) {
  const HostList ten = uniform_hosts(10, 1, false), eleven = uniform_hosts(11, 1, false);
  const Topology of_ten(ten), of_eleven(eleven);
  const Time without = NetworkTimes(cluster(ten), &of_ten.map(), Bytes{0}).exchange(0);
  const Time with = NetworkTimes(cluster(eleven), &of_eleven.map(), Bytes{0}).exchange(0);
  EXPECT_EQ(with - without, 2 * (10'000'000 + 2'900'000));
}

TEST(NetworkTimes, AnUnknownNetworkIsNoFastOne) {
  const HostList hosts = uniform_hosts(16, 1, false);
  const Topology topology(hosts);
  Machine machine = cluster(hosts);
  machine.costs.tcp.wire_kib = 0;
  machine.costs.tcp.latency = 1'000'000;
  // Twice three messages of 4 KiB, at 2.5 Gbit/s and after 10 us.
  const NetworkTimes times(machine, &topology.map(), Bytes{4096});
  EXPECT_EQ(times.exchange(0), 2 * (10'000'000 + 3 * 2'900'000 + 12 * 3'276'800));
}

TEST(NetworkTimes, SmallMessagesCostHopsAgain) {
  const HostList hosts = uniform_hosts(16, 1, false);
  const Topology topology(hosts);
  Machine machine = cluster(hosts);
  const Time once = NetworkTimes(machine, &topology.map(), Bytes{65536}).leaders();
  machine.max_message = Bytes{16384};
  EXPECT_EQ(NetworkTimes(machine, &topology.map(), Bytes{65536}).leaders() - once, 3 * 4 * Time{10'000'000});
}

/// The chosen algorithm takes at most 1.3 times as long as the fastest one in the simulator.
TEST(NetworkTimes, ChooseWhatTheSimulatorCallsFast) {
  const char* const candidates[] = {"hierarchical_leaders", "hierarchical",       "recursive_exchange",
                                    "scatter_exchange_1",   "scatter_exchange_2", "scatter_exchange_3"};
  const auto many = uniform_hosts(test::covers_all() ? 128 : 24, 8, false);
  for (const HostList& hosts : {uniform_hosts(3, 8, false), uniform_hosts(8, 8, false), uniform_hosts(11, 4, false),
                                uniform_hosts(40, 1, false), many}) {
    const Topology topology(hosts);
    const Machine machine = cluster(hosts);
    for (const std::size_t kib : {0, 1, 8, 32, 64, 256, 1024, 4096}) {
      const Bytes bytes{kib == 0 ? 8 : kib * 1024};
      const auto chosen = automatic_algorithm(Collective::kAllReduce, bytes, machine, &topology.map());
      Time best = INT64_MAX;
      for (const char* const name : candidates)
        best = std::min(best, simulated(Collective::kAllReduce, machine, topology, name, bytes));
      const Time time = simulated(Collective::kAllReduce, machine, topology, std::string(chosen), bytes);
      EXPECT_LE(time, best + best * 3 / 10)
          << topology.map().hosts << " hosts, " << bytes.value << " bytes: " << chosen;
    }
  }
}

/// An all-gather or reduce-scatter takes at most 1.35 times as long, also with small messages.
TEST(NetworkTimes, ChooseFastMessagesOfBlocks) {
  for (const Collective collective : {Collective::kAllGather, Collective::kReduceScatter}) {
    const char* const together = collective == Collective::kAllGather ? "bruck" : "recursive_halving";
    for (const HostList& hosts : {uniform_hosts(3, 8, false), uniform_hosts(8, 8, false), uniform_hosts(11, 4, false),
                                  uniform_hosts(40, 1, false), uniform_hosts(24, 8, false)}) {
      const Topology topology(hosts);
      Machine machine = cluster(hosts);
      for (const std::size_t message : {4096, 262144}) {
        machine.max_message = Bytes{message};
        for (const std::size_t size : {8, 256, 1024, 4096, 32768}) {
          const Bytes bytes{size};
          const auto chosen = automatic_algorithm(collective, bytes, machine, &topology.map());
          Time best = INT64_MAX;
          for (const char* const name : {"hierarchical", "hierarchical_rounds", "ring", together, "pat"})
            best = std::min(best, simulated(collective, machine, topology, name, bytes));
          const Time time = simulated(collective, machine, topology, std::string(chosen), bytes);
          EXPECT_LE(time, best + best * 7 / 20) << name_of(collective) << ", " << topology.map().hosts << " hosts of "
                                                << topology.map().most << ", " << size << " bytes: " << chosen;
        }
      }
    }
  }
}

/// Blocks by hosts, by hand: seven messages of eight blocks, of which a row of eight has seven for other hosts.
TEST(NetworkTimes, BlocksGoByHosts) {
  const HostList hosts = uniform_hosts(8, 8, false);
  const Topology topology(hosts);
  Machine machine = cluster(hosts);
  machine.costs.shm = LinkCosts{};
  machine.costs.copy_kib = 0;
  const NetworkTimes small(machine, &topology.map(), Bytes{0});
  EXPECT_EQ(small.blocks_by_hosts(1), 7 * 1'500'000 + 10'000'000 + 1'400'000) << "the others are received meanwhile";
  EXPECT_EQ(small.blocks_by_hosts(2), (3 + 1) * 1'500'000 + 2 * (10'000'000 + 1'400'000));
  EXPECT_EQ(small.blocks_by_hosts(3), 3 * (10'000'000 + 2'900'000));
  const NetworkTimes of_4_kib(machine, &topology.map(), Bytes{4096});
  EXPECT_EQ(of_4_kib.blocks_by_hosts(1), 10'000'000 + 7 * 8 * 8 * 4 * Time{81'920}) << "the link is what is busy";
}

/// Rows in rounds, by hand: each driver has a message of a row of eight blocks, and seven rows cross the link at once.
TEST(NetworkTimes, DriversMeetHostsAtTheSameTime) {
  const HostList eight = uniform_hosts(8, 8, false), eighty = uniform_hosts(80, 8, false);
  const Topology of_eight(eight), of_eighty(eighty);
  Machine machine = cluster(eight);
  machine.costs.shm = LinkCosts{};
  machine.costs.copy_kib = 0;
  EXPECT_EQ(NetworkTimes(machine, &of_eight.map(), Bytes{0}).rows_in_rounds(false), 10'000'000 + 2'900'000);
  EXPECT_EQ(NetworkTimes(machine, &of_eight.map(), Bytes{4096}).rows_in_rounds(false),
            10'000'000 + 2'900'000 + 7 * 8 * 4 * Time{81'920} + 8 * 4 * 2 * Time{85'000});
  machine.ranks = 640;
  EXPECT_EQ(NetworkTimes(machine, &of_eighty.map(), Bytes{0}).rows_in_rounds(false), 2 * (10'000'000 + 2'900'000));
}

/// Ranks that share a core take turns; a leader is the only one of its host that has messages.
TEST(NetworkTimes, RanksOfACoreTakeTurns) {
  const HostList hosts = uniform_hosts(4, 8, false);
  const Topology topology(hosts);
  Machine machine = cluster(hosts);
  machine.costs.shm = LinkCosts{};
  EXPECT_EQ(NetworkTimes(machine, &topology.map(), Bytes{0}).exchange(0), 10'000'000 + 3 * 2'900'000);
  machine.costs.cores = 4;
  const NetworkTimes in_turn(machine, &topology.map(), Bytes{0});
  EXPECT_EQ(in_turn.exchange(0), 10'000'000 + 2 * 3 * 2'900'000);
  EXPECT_EQ(in_turn.leaders(), 10'000'000 + 3 * 2'900'000);
}

/// The lanes of a rank share its processor: in a ring it also adds up and hands out what its host has.
TEST(NetworkTimes, WorkWithinHostsTakesTheProcessorsOfARing) {
  const HostList hosts = uniform_hosts(4, 8, false);
  const Topology topology(hosts);
  Machine machine = cluster(hosts);
  machine.costs.tcp = LinkCosts{};
  machine.costs.tcp.wire_kib = 1;
  machine.costs.shm = LinkCosts{0, 0, 0, 0, 50'000, 0, 0};
  machine.costs.reduce_kib = machine.costs.copy_kib = machine.costs.memory_kib = 0;
  // A share of 128 KiB comes from seven ranks, and goes to them.
  const NetworkTimes of_1_mib(machine, &topology.map(), Bytes{1 << 20});
  EXPECT_EQ(of_1_mib.ring(), 2 * 7 * 128 * Time{50'000});
}

/// Two lanes have twice as many messages, each of which costs its overhead: eight parts of a share for each of seven
/// other ranks, there and back.
TEST(NetworkTimes, BothLanesOfARingHaveMessages) {
  const HostList hosts = uniform_hosts(4, 8, false);
  const Topology topology(hosts);
  Machine machine = cluster(hosts);
  machine.costs.tcp = LinkCosts{};
  machine.costs.tcp.wire_kib = 1;
  machine.costs.shm = LinkCosts{};
  machine.costs.shm.recv_overhead = 100'000;
  machine.costs.reduce_kib = machine.costs.copy_kib = machine.costs.memory_kib = 0;
  EXPECT_EQ(NetworkTimes(machine, &topology.map(), Bytes{1 << 20}).ring(), 2 * 7 * 2 * 4 * Time{100'000});
}

/// If each host has one rank, each round has one message: of one block, then of two, then of four. Their times are
/// added up by hand.
TEST(NetworkTimes, RowsOfOneRankAddUp) {
  const HostList hosts = uniform_hosts(8, 1, false);
  const Topology topology(hosts);
  const Machine machine = cluster(hosts);
  EXPECT_EQ(NetworkTimes(machine, &topology.map(), Bytes{1024}).rows_in_rounds(false),
            3 * (10'000'000 + 2'900'000) + 7 * Time{85'000 + 81'920 + 85'000});
}

/// All pairs, by hand: what a link holds up is there with the last message, of which half are still to be received.
TEST(NetworkTimes, AllBlocksAreUnderWayAtOnce) {
  const HostList hosts = uniform_hosts(16, 1, false);
  const Topology topology(hosts);
  Machine machine = cluster(hosts);
  const NetworkTimes empty(machine, &topology.map(), Bytes{0});
  EXPECT_EQ(empty.blocks_apart(Collective::kAllToAll), 15 * 2'900'000) << "all but the first ones come meanwhile";
  EXPECT_EQ(empty.blocks_apart(Collective::kAllGather), 15 * 2'900'000 + 10'000'000) << "they leave together";
  machine.costs.tcp.wire_kib = 8'192'000;
  const NetworkTimes of_16_kib(machine, &topology.map(), Bytes{16384});
  const Time ends = 1'500'000 + 16 * 85'000 + 15 * (1'400'000 + 16 * 85'000) / 2;
  EXPECT_EQ(of_16_kib.blocks_apart(Collective::kAllToAll), ends + 10'000'000 + 15 * 16 * Time{8'192'000});
}

/// An all-to-all takes at most 1.3 times as long as by the fastest algorithm.
TEST(NetworkTimes, ChooseFastAllToAlls) {
  HostList uneven = uniform_hosts(test::covers_all() ? 9 : 5, 8, false);
  uneven.insert(uneven.end(), 7, 9);
  std::vector<HostList> layouts{uniform_hosts(3, 8, false), uniform_hosts(8, 8, false), uniform_hosts(11, 4, false),
                                uniform_hosts(40, 1, false), uneven};
  if (test::covers_all())  // their messages grow with the square of their ranks
    layouts.insert(layouts.end(),
                   {uniform_hosts(100, 1, false), uniform_hosts(14, 6, true), uniform_hosts(128, 8, false)});
  for (const HostList& hosts : layouts) {
    const Topology topology(hosts);
    const Machine machine = cluster(hosts);
    for (const std::size_t size : {8, 64, 256, 1024, 4096, 8192, 32768, 65536, 1048576}) {
      const Bytes bytes{size};
      const auto chosen = automatic_algorithm(Collective::kAllToAll, bytes, machine, &topology.map());
      Time best = INT64_MAX;
      for (const char* const name :
           {"all_pairs", "pairwise", "bruck", "hierarchical", "hierarchical_2", "hierarchical_3"})
        best = std::min(best, simulated(Collective::kAllToAll, machine, topology, name, bytes));
      const Time time = simulated(Collective::kAllToAll, machine, topology, std::string(chosen), bytes);
      EXPECT_LE(time, best + best * 3 / 10)
          << topology.map().hosts << " hosts of " << topology.map().most << ", " << size << " bytes: " << chosen << ", "
          << time / 1'000'000 << " us, not " << best / 1'000'000;
    }
  }
}

/// For each of these the library used to choose an algorithm that takes 1.3 to 2.3 times as long as the rival.
TEST(NetworkTimes, ChooseFastOnOtherNetworks) {
  struct Case {
    Collective collective;
    int hosts, each, cores;
    Time wire_kib;
    std::size_t bytes;
    const char* rival;
  };
  const Time of_1_gbit = 8'192'000, of_10_gbit = 819'200, of_100_gbit = 81'920, of_400_gbit = 20'480;
  for (const Case& c : {Case{Collective::kAllReduce, 9, 8, 8, of_1_gbit, 16384, "ring"},
                        Case{Collective::kAllReduce, 33, 3, 8, of_1_gbit, 65536, "ring"},
                        Case{Collective::kAllReduce, 100, 1, 8, of_1_gbit, 131072, "all_pairs_two_shot"},
                        Case{Collective::kAllReduce, 100, 1, 8, of_10_gbit, 2097152, "all_pairs_two_shot"},
                        Case{Collective::kAllToAll, 9, 8, 8, of_400_gbit, 1048576, "all_pairs"},
                        Case{Collective::kAllToAll, 33, 3, 8, of_400_gbit, 65536, "all_pairs"},
                        Case{Collective::kAllToAll, 33, 3, 8, of_100_gbit, 2097152, "all_pairs"},
                        Case{Collective::kAllToAll, 5, 32, 32, of_100_gbit, 65536, "all_pairs"},
                        Case{Collective::kAllGather, 5, 32, 32, of_100_gbit, 4096, "hierarchical"},
                        Case{Collective::kReduceScatter, 5, 32, 32, of_100_gbit, 4096, "hierarchical"},
                        Case{Collective::kReduceScatter, 100, 1, 8, of_100_gbit, 65536, "all_pairs"},
                        Case{Collective::kAllReduce, 5, 32, 32, of_100_gbit, 524288, "scatter_exchange_1"},
                        Case{Collective::kReduceScatter, 100, 1, 8, of_1_gbit, 64, "hierarchical_rounds"},
                        Case{Collective::kReduceScatter, 100, 1, 8, of_10_gbit, 512, "hierarchical_rounds"},
                        Case{Collective::kReduceScatter, 100, 1, 8, of_400_gbit, 4096, "hierarchical_rounds"},
                        Case{Collective::kAllToAll, 12, 16, 8, of_100_gbit, 64, "hierarchical_2"}}) {
    const HostList hosts = uniform_hosts(c.hosts, c.each, false);
    const Topology topology(hosts);
    const Machine machine = cluster(hosts, c.cores, c.wire_kib);
    const Bytes bytes{c.bytes};
    const std::string chosen(automatic_algorithm(c.collective, bytes, machine, &topology.map()));
    const Time best = simulated(c.collective, machine, topology, c.rival, bytes);
    EXPECT_LE(simulated(c.collective, machine, topology, chosen, bytes), best + best / 4)
        << name_of(c.collective) << ", " << c.hosts << " hosts of " << c.each << ", " << c.bytes
        << " bytes: " << chosen;
  }
}

/// Up to 14 messages and a hop take less time than four hops, and up to 18 less than five.
TEST(NetworkTimes, ChooseABarrierByItsMessages) {
  for (int ranks = 9; ranks <= 24; ++ranks) {
    const HostList hosts = uniform_hosts(ranks, 1, false);
    const Topology topology(hosts);
    const bool few = ranks <= 15 || (ranks >= 17 && ranks <= 19);
    EXPECT_EQ(automatic_algorithm(Collective::kBarrier, Bytes{0}, cluster(hosts), &topology.map()),
              few ? "all_pairs" : "dissemination")
        << ranks;
  }
}

/// Ranks that are dealt out to hosts have a hop between hosts for each of them in a ring of all.
TEST(NetworkTimes, OfferARingOfRanksOnlyWhereTheyFollowOneAnother) {
  for (const bool dealt : {false, true}) {
    const HostList hosts = uniform_hosts(9, 8, dealt);
    const Topology topology(hosts);
    Machine machine = cluster(hosts);
    machine.costs.tcp.wire_kib = 8'192'000;
    const auto chosen = automatic_algorithm(Collective::kAllReduce, Bytes{16384}, machine, &topology.map());
    EXPECT_EQ(chosen == "ring", !dealt) << chosen;
  }
}

/// A part goes nearly twice around all ranks, by hand: 8 hops between hosts and 6 within them, which cost nothing here.
TEST(NetworkTimes, ARingOfRanksMeetsEachHostTwice) {
  const HostList hosts = uniform_hosts(4, 3, false);
  const Topology topology(hosts);
  Machine machine = cluster(hosts);
  machine.costs.shm = LinkCosts{};
  EXPECT_EQ(NetworkTimes(machine, &topology.map(), Bytes{0}).ring_of_ranks(), 8 * (10'000'000 + 2'900'000));
}

/// Two shots, by hand: all messages of either shot are sent, then there, then received.
TEST(NetworkTimes, TwoShotsAreTwoHops) {
  const HostList hosts = uniform_hosts(16, 1, false);
  const Topology topology(hosts);
  const Machine machine = cluster(hosts);
  EXPECT_EQ(NetworkTimes(machine, &topology.map(), Bytes{0}).two_shots(), 2 * (15 * 2'900'000 + 10'000'000));
}

}  // namespace
}  // namespace tutti
