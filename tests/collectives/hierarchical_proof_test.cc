// Covers collectives/hierarchical/*.h.
// Hierarchical algorithms, proved for whatever ranks share hosts: every way to place up to 8 ranks, random ones up to
// 64, regular ones up to 72, or 256 if all is tested; apart, in place and mixed; with messages read from where they
// were sent.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "collectives/hierarchical/host_layout.h"
#include "schedule/effort.h"
#include "schedule/tables.h"
#include "schedule/topologies.h"
#include "support/depth.h"

namespace tutti {
namespace {

class Hierarchy : public testing::TestWithParam<Algorithm> {
 protected:
  static std::vector<std::int32_t> roots(std::int32_t n) {
    return is_rooted(GetParam().collective) ? proved_roots(n) : std::vector<std::int32_t>{0};
  }

  /// The tables of all ranks, with the topology that they look at.
  const Tables& build(const HostList& hosts, std::int32_t root, std::int32_t lanes) {
    topology_ = std::make_unique<Topology>(hosts);
    tables_ = tables_of(GetParam(), Shape{static_cast<std::int32_t>(hosts.size()), 0, root, lanes, &topology_->map()});
    return tables_;
  }

  void prove(const HostList& hosts, std::int32_t lanes) {
    if (lanes > GetParam().max_lanes) return;
    for (const std::int32_t root : roots(static_cast<std::int32_t>(hosts.size()))) {
      build(hosts, root, lanes);
      for (const Aliasing aliasing : {Aliasing::kNone, Aliasing::kAll, Aliasing::kMixed}) {
        const auto fault = prover_.find_fault(Program(tables_), ProofOptions{aliasing, 2, true, true});
        ASSERT_FALSE(fault) << to_text(hosts) << "; root " << root << ", " << lanes << " lanes: " << fault->text;
      }
    }
  }

  /// Bytes that each host sends to others and hears from them, in blocks of the call's count times 1000.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> network_load(const HostList& hosts) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> load(hosts.size());
    for (const Schedule& table : build(hosts, 0, 1)) {
      const auto here = static_cast<std::size_t>(hosts[static_cast<std::size_t>(table.shape.rank)]);
      for (const Step& step : table.steps) {
        if (!step.has(kSend)) continue;
        const auto there = static_cast<std::size_t>(hosts[static_cast<std::size_t>(step.send_peer)]);
        if (there == here) continue;
        const std::uint32_t chunks = step.span.count;
        load[here].first += 1000 / table.extent.parts * chunks;
        load[there].second += 1000 / table.extent.parts * chunks;
      }
    }
    return load;
  }

  Prover prover_;
  std::unique_ptr<Topology> topology_;
  Tables tables_;
};

TEST_P(Hierarchy, EveryPlacementOfFewRanks) {
  for (int n = 1; n <= (kReduced ? 5 : test::covers_all() ? 8 : 7); ++n) {
    for_each_partition(n, [&](const HostList& hosts) {
      for (const std::int32_t lanes : {1, 2}) {
        if (!HasFatalFailure() && (n < 8 || lanes == 1)) prove(hosts, lanes);
      }
    });
    ASSERT_FALSE(HasFatalFailure());
  }
}

TEST_P(Hierarchy, RandomPlacements) {
  std::mt19937 random(5);
  for (int round = 0; round < (kReduced ? 10 : test::covers_all() ? 150 : 75); ++round) {
    const int n = 1 + static_cast<int>(random() % (kReduced ? 20 : 64));
    ASSERT_NO_FATAL_FAILURE(prove(random_hosts(n, random), 1 + round % 3));
  }
}

TEST_P(Hierarchy, RegularPlacements) {
  const int most = kReduced ? 24 : test::covers_all() ? 256 : 72;
  for (const int hosts : {1, 2, 3, 4, 7, 8, 9, 16, 33, 64, 256}) {
    for (const int each : {1, 2, 3, 4, 8, 31, 64, 128}) {
      if (hosts * each > most) continue;
      for (const bool dealt : {false, true}) ASSERT_NO_FATAL_FAILURE(prove(uniform_hosts(hosts, each, dealt), 1));
    }
  }
}

TEST_P(Hierarchy, SeveralLanes) {
  for (const int hosts : {2, 3, 5}) {
    for (const int each : {1, 2, 5}) {
      for (const std::int32_t lanes : {2, 3, 8})
        ASSERT_NO_FATAL_FAILURE(prove(uniform_hosts(hosts, each, false), lanes));
    }
  }
}

TEST_P(Hierarchy, FingerprintsForManyRanks) {
  const int each = kReduced ? 8 : 32;
  const int hosts = kReduced ? 10 : test::covers_all() ? 32 : 16;
  for (const bool dealt : {false, true}) {
    const Topology topology(uniform_hosts(hosts, each, dealt));
    const Shape shape{hosts * each, 0, 7, 1, &topology.map()};
    const auto fault = prover_.find_fault(Program(GetParam(), shape), ProofOptions{Aliasing::kNone, 2, false, false});
    ASSERT_FALSE(fault) << fault->text;
  }
}

/// Without hosts to tell apart the schedules are those of the flat algorithm that they are built from.
TEST_P(Hierarchy, IsFlatOnOneHost) {
  for (const std::int32_t n : {1, 2, 3, 5, 8, 13}) {
    const Topology one(HostList(static_cast<std::size_t>(n), 4));
    for (const std::int32_t root : roots(n)) {
      const Tables flat = tables_of(GetParam(), Shape{n, 0, root, 1});
      const Tables same = tables_of(GetParam(), Shape{n, 0, root, 1, &one.map()});
      for (std::size_t rank = 0; rank < flat.size(); ++rank) EXPECT_EQ(flat[rank].steps, same[rank].steps);
      const auto fault = fault_in(flat);
      EXPECT_FALSE(fault) << fault->text;
    }
  }
}

/// What crosses each host's link, as docs/design/hierarchy.md says (in thousandths of the call's count; parts round).
TEST_P(Hierarchy, NetworkLoadIsThatOfTheDocumentation) {
  const Collective collective = GetParam().collective;
  const std::string_view name = GetParam().name;
  const bool exchanges = name == "recursive_exchange";
  const bool whole = name != "hierarchical" && !name.starts_with("scatter_exchange");
  for (const int hosts : {2, 3, 4, 8, 16}) {
    for (const int each : {1, 2, 4}) {
      if (hosts * each > 32) continue;  // thousandths of so many parts round too much
      const std::uint64_t others = static_cast<std::uint64_t>(hosts - 1) * 1000;
      const auto load = network_load(uniform_hosts(hosts, each, false));
      std::uint64_t sent = 0;
      for (int host = 0; host < hosts; ++host) {
        const auto [out, in] = load[static_cast<std::size_t>(host)];
        sent += out;
        std::uint64_t expected = others * static_cast<std::uint64_t>(each);  // reduce-scatter, all-gather
        if (collective == Collective::kAllReduce) expected = whole ? others : 2 * others / static_cast<unsigned>(hosts);
        if (exchanges && hosts >= 8) expected = hosts == 8 ? 4000 : 6000;  // three messages, then one, or three
        if (name == "scatter_exchange_1" && hosts == 16)
          expected = 2250;  // a quarter to three, there and back, and so on
        if (name == "hierarchical_leaders" && collective == Collective::kAllReduce && hosts == 16) expected = 4000;
        if (collective == Collective::kAllToAll) {
          // In one round to each of its ranks what each rank has for it; a round more is at most as much again.
          const unsigned rounds = name == "hierarchical_3" ? 3 : name == "hierarchical_2" ? 2 : 1;
          const std::uint64_t least = expected * static_cast<unsigned>(each);
          EXPECT_EQ(out, in) << hosts << " hosts of " << each;
          EXPECT_GE(out, least) << hosts << " hosts of " << each;
          EXPECT_LE(out, least * rounds) << hosts << " hosts of " << each;
          continue;
        }
        if (collective == Collective::kBarrier) continue;
        if (is_rooted(collective)) {
          const bool up = collective == Collective::kReduce || collective == Collective::kGather;
          const bool moves_blocks = collective == Collective::kGather || collective == Collective::kScatter;
          EXPECT_EQ(up ? out : in, host == 0 ? 0u : moves_blocks ? each * 1000u : 1000u);
          continue;
        }
        EXPECT_NEAR(static_cast<double>(out), static_cast<double>(expected), 50) << hosts << " hosts of " << each;
        EXPECT_NEAR(static_cast<double>(in), static_cast<double>(expected), 50) << hosts << " hosts of " << each;
      }
      if (collective == Collective::kBroadcast || collective == Collective::kReduce) {
        EXPECT_EQ(sent, others);
      }
    }
  }
}

/// Every driver of a host has its share of the network's work.
TEST_P(Hierarchy, AllDriversUseTheNetwork) {
  const std::string_view name = GetParam().name;
  const bool by_drivers = GetParam().collective == Collective::kAllToAll || name == "hierarchical" ||
                          name == "hierarchical_double_tree" || name == "recursive_exchange" ||
                          name.starts_with("hierarchical_knomial") || name.starts_with("scatter_exchange");
  if (!by_drivers || GetParam().collective == Collective::kBarrier) {
    GTEST_SKIP() << "leaders alone use the network";
  }
  const HostList hosts = uniform_hosts(3, 4, true);
  for (const Schedule& table : build(hosts, 0, 1)) {
    int crossing = 0;
    for (const Step& step : table.steps) {
      const auto away = [&](std::int32_t peer) { return peer >= 0 && peer % 3 != table.shape.rank % 3; };
      crossing += away(step.send_peer) || away(step.recv_peer) ? 1 : 0;
    }
    EXPECT_GT(crossing, 0) << "rank " << table.shape.rank;
  }
}

/// With D drivers each, 1 + D hosts have each other's blocks after one round, in which every driver has one message.
TEST(Hierarchical, DriversMeetAHostEach) {
  for (const auto& [hosts, rounds] : {std::pair{5, 1}, {25, 2}}) {
    const Topology topology(uniform_hosts(hosts, 4, false));
    for (const Collective collective : {Collective::kAllGather, Collective::kReduceScatter}) {
      for (const Schedule& table :
           tables_of(collective, "hierarchical_rounds", Shape{hosts * 4, 0, 0, 1, &topology.map()})) {
        int away = 0;
        for (const Step& step : table.steps)
          away += step.has(kSend) && step.send_peer / 4 != table.shape.rank / 4 ? 1 : 0;
        EXPECT_EQ(away, rounds) << name_of(collective) << ", " << hosts << " hosts, rank " << table.shape.rank;
      }
    }
  }
}

std::vector<Algorithm> hierarchical_algorithms() {
  std::vector<Algorithm> found;
  for (const Algorithm& algorithm : catalogue()) {
    if (algorithm.hierarchical) found.push_back(algorithm);
  }
  return found;
}

TEST(Hierarchical, AreThoseWhoseStepsDependOnHosts) {
  const Topology topology(uniform_hosts(3, 2, true));
  for (const Algorithm& algorithm : catalogue()) {
    bool same = true;
    for (std::int32_t rank = 0; rank < 6; ++rank) {
      const Schedule without = build_schedule(algorithm, Shape{6, rank, 0, 1});
      same = same && build_schedule(algorithm, Shape{6, rank, 0, 1, &topology.map()}).steps == without.steps;
    }
    EXPECT_EQ(same, !algorithm.hierarchical) << name_of(algorithm.collective) << " " << algorithm.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, Hierarchy, testing::ValuesIn(hierarchical_algorithms()),
                         [](const testing::TestParamInfo<Algorithm>& info) {
                           return std::string(name_of(info.param.collective)) + "_" + info.param.name;
                         });

}  // namespace
}  // namespace tutti
