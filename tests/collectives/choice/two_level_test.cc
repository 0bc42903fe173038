// Covers collectives/choice/two_level.cc.
// Collectives at two levels, proved as one schedule each: every root, hosts of equal size placed by host, dealt out and
// at random; apart, in place and mixed.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "collectives/choice/two_level_tables.h"
#include "schedule/effort.h"

namespace tutti {
namespace {

constexpr std::size_t kSmall = 1024;
constexpr std::size_t kMedium = 32 * 1024;
constexpr std::size_t kLargeMessage = std::size_t{1} << 20;
constexpr Collective kForms[] = {Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast,
                                 Collective::kReduceScatter, Collective::kAllGather};

class TwoLevel : public testing::TestWithParam<Collective> {
 protected:
  void prove(const HostList& hosts) {
    const auto ranks = static_cast<std::int32_t>(hosts.size());
    for (const int lanes : {1, 2}) {
      TwoLevelCalls calls(hosts, lanes);
      for (const std::int32_t root : is_rooted(GetParam()) ? proved_roots(ranks) : std::vector<std::int32_t>{0}) {
        for (const std::size_t block : {kSmall, kMedium, kLargeMessage}) {
          const Tables tables = calls.compose(GetParam(), root, block);
          const std::string name = tables[0].algorithm->name + (" " + std::to_string(tables[0].shape.lanes));
          ran_.insert(name);
          for (const Aliasing aliasing : {Aliasing::kNone, Aliasing::kAll, Aliasing::kMixed}) {
            const auto fault = prover_.find_fault(Program(tables), ProofOptions{aliasing});
            ASSERT_FALSE(fault) << to_text(hosts) << "; root " << root << ", " << name << " lanes: " << fault->text;
          }
        }
      }
    }
  }

  std::set<std::string> ran_;  ///< algorithm and lanes between hosts

 private:
  Prover prover_;
};

TEST_P(TwoLevel, IsTheCollective) {
  std::mt19937 random(3);
  for (const auto& [hosts, each] :
       {std::pair{2, 2}, {2, 3}, {3, 2}, {4, 2}, {2, 4}, {3, 3}, {5, 3}, {4, 4}, {2, 8}, {7, 2}, {8, 4}}) {
    if (hosts * each > 16 && kReduced) continue;
    HostList list = uniform_hosts(hosts, each, false);
    ASSERT_NO_FATAL_FAILURE(prove(list));
    ASSERT_NO_FATAL_FAILURE(prove(uniform_hosts(hosts, each, true)));
    for (int round = 0; round < (kReduced ? 1 : 4); ++round) {
      std::shuffle(list.begin(), list.end(), random);
      ASSERT_NO_FATAL_FAILURE(prove(list));
    }
  }
  std::set<std::string> expected{"ring 1", "ring 2"};
  if (is_rooted(GetParam())) expected = {"chain 1", "tree 1"};
  if (GetParam() == Collective::kBroadcast) expected.insert("chain 2");
  if (GetParam() == Collective::kAllReduce) expected.insert("recursive_doubling 1");
  EXPECT_EQ(ran_, expected);
}

INSTANTIATE_TEST_SUITE_P(Forms, TwoLevel, testing::ValuesIn(kForms),
                         [](const auto& info) { return std::string(name_of(info.param)); });

/// Two ranks on each of two or three hosts, dealt out in turn; root 0.
Tables dealt(Collective collective, int hosts, std::size_t block) {
  static TwoLevelCalls two(uniform_hosts(2, 2, true), 1);
  static TwoLevelCalls three(uniform_hosts(3, 2, true), 1);
  return (hosts == 2 ? two : three).compose(collective, 0, block);
}

bool adds_what_came_over_network(const Step& step) { return step.has(kReduce) && step.recv_from == PeerSet::kOne; }

TEST(PlantedInTwoLevel, HostsAddedInTheWrongOrderOnAllRanks) {
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter}) {
    for (const std::size_t block : {kSmall, kLargeMessage}) {
      expect_fault(dealt(collective, 3, block), Check::kExpression, [](Tables& all) {
        for (Schedule& table : all) {
          for (Step& step : table.steps) step.flags ^= adds_what_came_over_network(step) ? kOwnLeft : 0;
        }
      });
    }
  }
}

TEST(PlantedInTwoLevel, AShareGatheredFromTheWrongRank) {
  const auto plant = [](Tables& all) {
    Step& step = all[0].steps.back();  // of rank 2 of the same host
    ASSERT_EQ(step.recv_peer, 2);
    step.recv_peer = 1;
  };
  expect_fault(dealt(Collective::kAllReduce, 2, kSmall), Check::kMatching, plant);
  expect_fault(dealt(Collective::kBroadcast, 2, kSmall), Check::kMatching, plant);
}

TEST(PlantedInTwoLevel, AShareStoredInAnothersPlace) {
  expect_fault(dealt(Collective::kAllGather, 2, kSmall), Check::kContributions, [](Tables& all) {
    Step& step = all[0].steps.back();  // of rank 3, on the other host
    ASSERT_EQ(step.dst_chunk, 3u);
    step.dst_chunk = 2;
  });
}

/// Avg would divide there already.
TEST(PlantedInTwoLevel, AHostsSumMarkedComplete) {
  expect_fault(dealt(Collective::kAllReduce, 2, kSmall), Check::kContributions, [](Tables& all) {
    for (Step& step : all[1].steps) step.flags |= step.recv_from == PeerSet::kHost ? kComplete : 0;
  });
}

TEST(TwoLevelForm, FiveCollectivesHaveOne) {
  TwoLevelForm form;
  for (int i = 0; i <= static_cast<int>(Collective::kShrink); ++i) {
    const auto collective = static_cast<Collective>(i);
    const bool expected = std::ranges::find(kForms, collective) != std::end(kForms);
    EXPECT_EQ(two_level_form(collective, &form), expected) << i;
    const bool empty = form.first == Collective::kNone && form.last == Collective::kNone;
    EXPECT_EQ(empty, !expected) << i;
  }
}

TEST(TwoLevelForm, FitsSeveralHostsOfSeveralRanksEach) {
  const auto fits = [](const HostList& hosts) { return TwoLevelPlans::fits(Topology(hosts).map()); };
  EXPECT_TRUE(fits({0, 0, 1, 1}));
  EXPECT_TRUE(fits({0, 1, 2, 2, 0, 1}));
  EXPECT_FALSE(fits({0, 0, 1, 1, 1})) << "not of equal size";
  EXPECT_FALSE(fits({0, 0, 1})) << "not of equal size";
  EXPECT_FALSE(fits({0, 1, 2})) << "nothing to do in the host";
  EXPECT_FALSE(fits({0, 0, 0})) << "nothing to do between hosts";
  EXPECT_FALSE(fits({0}));
}

TEST(RenumberPeers, RefusesSetsAndLeavesTheScheduleAsItIs) {
  const std::int32_t members[] = {5, 3, 9, 7};
  for (const Algorithm& algorithm : catalogue()) {
    const Schedule before = build_schedule(algorithm, Shape{4, 1, 0, 1});
    const bool named = std::ranges::all_of(before.steps, [](const Step& step) {
      return step.recv_from <= PeerSet::kOne && step.send_to <= PeerSet::kOne;
    });
    Schedule after = before;
    EXPECT_EQ(renumber_peers(members, &after), named) << name_of(algorithm.collective) << ' ' << algorithm.name;
    std::vector<Step> expected = before.steps;
    for (Step& step : expected) {
      if (named && step.has(kRecv)) step.recv_peer = members[step.recv_peer];
      if (named && step.has(kSend)) step.send_peer = members[step.send_peer];
    }
    EXPECT_EQ(after.steps, expected) << name_of(algorithm.collective) << ' ' << algorithm.name;
  }
}

TEST(RenumberPeers, EveryAlgorithmBetweenHostsNamesItsPeers) {
  std::set<std::string> names;
  std::vector<std::int32_t> members;
  for (std::int32_t hosts = 1; hosts <= 16; ++hosts) {
    members.push_back(100 - hosts);
    for (const Collective collective : kForms) {
      for (const std::size_t block : {1, 16384, 16385, 65536, 65537, 1 << 24}) {
        const Algorithm& algorithm = between_hosts(collective, Bytes{block}, hosts);
        names.insert(algorithm.name);
        for (Shape shape{hosts, 0, 0, 1}; shape.lanes <= 2; ++shape.lanes) {
          for (shape.root = 0; shape.root < (is_rooted(collective) ? hosts : 1); ++shape.root) {
            for (shape.rank = 0; shape.rank < hosts; ++shape.rank) {
              Schedule schedule = build_schedule(algorithm, shape);
              EXPECT_TRUE(renumber_peers(members, &schedule)) << algorithm.name << ", " << hosts << " hosts";
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(names, (std::set<std::string>{"chain", "recursive_doubling", "ring", "tree"}));
}

}  // namespace
}  // namespace tutti
