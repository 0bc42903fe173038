// Covers schedule/prover.cc.
// Faults planted in hierarchical schedules: each is seen, by the check it belongs to.
#include <gtest/gtest.h>

#include <algorithm>

#include "schedule/step_builder.h"
#include "schedule/tables.h"
#include "schedule/topologies.h"

namespace tutti {
namespace {

/// Three hosts of 3, 2 and 2 ranks, dealt out: 0 3 6, 1 4, 2 5.
const Topology& hosts() {
  static const Topology topology(HostList{0, 1, 2, 0, 1, 2, 0});
  return topology;
}
Tables tables(Collective collective, const char* name, std::int32_t root = 0) {
  return tables_of(collective, name, Shape{7, 0, root, 1, &hosts().map()});
}

/// The n-th step of the rank for which the predicate holds.
template <typename Predicate>
Step& find_step(Tables& all, std::size_t rank, Predicate predicate, int n = 0) {
  for (Step& step : all[rank].steps) {
    if (predicate(step) && n-- == 0) return step;
  }
  ADD_FAILURE() << "no such step";
  return all[rank].steps.front();
}
bool collects(const Step& step) { return step.recv_from == PeerSet::kHost; }
bool adds_from_network(const Step& step) { return step.has(kReduce) && step.recv_from == PeerSet::kOne; }
bool spreads(const Step& step) { return step.verbs == kSend && step.src_buffer == BufferId::kOutput; }

TEST(PlantedInHierarchy, AHostsPartialResultOnTheWrongSide) {
  const Fault fault = expect_fault(tables(Collective::kAllReduce, "hierarchical"), Check::kExpression, [](Tables& all) {
    Step& step = find_step(all, 1, adds_from_network);
    step.flags ^= kOwnLeft;
  });
  EXPECT_EQ(fault.rank, 1);
}

TEST(PlantedInHierarchy, ALocalContributionLeftOut) {
  expect_fault(tables(Collective::kAllReduce, "hierarchical"), Check::kMatching, [](Tables& all) {
    Step& step = find_step(all, 4, collects);  // instead of from its host from nobody: takes its own alone
    step.verbs &= static_cast<std::uint8_t>(~(kRecv | kReduce));
    step.recv_from = PeerSet::kNone;
  });
}

TEST(PlantedInHierarchy, CollectsAcrossInsteadOfAtHome) {
  expect_fault(tables(Collective::kAllReduce, "hierarchical"), Check::kMatching,
               [](Tables& all) { find_step(all, 0, collects).recv_from = PeerSet::kAcross; });
}

TEST(PlantedInHierarchy, ASetThatDoesNotExist) {
  expect_fault(tables(Collective::kAllReduce, "hierarchical_leaders"), Check::kStep, [](Tables& all) {
    all[6].steps[1] = StepBuilder(0, 0)
                          .recv_each(PeerSet::kAcross)
                          .reduce(BufferId::kInput, 0)
                          .store(BufferId::kOutput, 0)
                          .step();  // the other hosts have no third rank
  });
}

TEST(PlantedInHierarchy, TheCollectedPartSentOnWithoutWhatCameFromTheNetwork) {
  expect_fault(tables(Collective::kAllReduce, "hierarchical"), Check::kMatching, [](Tables& all) {
    Step& step = find_step(all, 3, adds_from_network);
    step.verbs &= static_cast<std::uint8_t>(~(kRecv | kReduce));
    step.recv_from = PeerSet::kNone;
    step.recv_peer = -1;
    step.flags = 0;
  });
}

/// Ten hosts in groups of five, then of two; three more ranks on hosts 0 and 1.
Tables exchange_tables(const char* name) {
  static const Topology topology(HostList{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 1});
  return tables_of(Collective::kAllReduce, name, Shape{13, 0, 0, 1, &topology.map()});
}
bool adds_group(const Step& step) { return step.recv_from == PeerSet::kGroup; }

TEST(PlantedInHierarchy, AnotherGroup) {
  expect_fault(exchange_tables("recursive_exchange"), Check::kMatching, [](Tables& all) {
    find_step(all, 3, adds_group).recv_peer = HostGroup{2, 5}.as_peer();
  });
}

TEST(PlantedInHierarchy, AGroupBeyondTheLastHost) {
  expect_fault(exchange_tables("recursive_exchange"), Check::kStep, [](Tables& all) {
    find_step(all, 3, adds_group, 1).recv_peer = HostGroup{8, 2}.as_peer();
  });
}

TEST(PlantedInHierarchy, AGroupAddedUpWithoutAMember) {
  expect_fault(exchange_tables("scatter_exchange_1"), Check::kMatching, [](Tables& all) {
    find_step(all, 7, adds_group).recv_peer = HostGroup{1, 4}.as_peer();
  });
}

TEST(PlantedInHierarchy, AnotherHostsRangeOfADividedShare) {
  expect_fault(exchange_tables("scatter_exchange_1"), Check::kMatching, [](Tables& all) {
    Step& step = find_step(all, 7, adds_group);
    step.chunk = step.src_chunk = step.dst_chunk = step.chunk == 0 ? 1 : 0;
  });
}

/// In place of scratch: some of the group may still read what the others' sum overwrites.
TEST(PlantedInHierarchy, AnExchangeThroughTheOutputs) {
  const auto moved = [](Tables& all) {
    for (Schedule& table : all) {
      for (Step& step : table.steps) {
        if (step.src_buffer == BufferId::kScratch) step.src_buffer = BufferId::kOutput;
        if (step.dst_buffer == BufferId::kScratch) step.dst_buffer = BufferId::kOutput;
      }
    }
  };
  Tables all = exchange_tables("recursive_exchange");
  moved(all);
  EXPECT_FALSE(fault_in(all, ProofOptions{Aliasing::kNone, 2, true, false}));
  expect_fault(exchange_tables("recursive_exchange"), Check::kReference, moved,
               ProofOptions{Aliasing::kNone, 2, true, true});
}

TEST(PlantedInHierarchy, SpreadBeforeTheNetworkIsDone) {
  expect_fault(tables(Collective::kAllReduce, "hierarchical"), Check::kContributions, [](Tables& all) {
    Step& step = find_step(all, 0, spreads);
    const auto at = static_cast<std::size_t>(&step - all[0].steps.data());
    std::swap(all[0].steps[at], all[0].steps[at - 1]);
  });
}

TEST(PlantedInHierarchy, AHostForgotten) {
  expect_fault(tables(Collective::kBroadcast, "hierarchical"), Check::kMatching, [](Tables& all) {
    find_step(all, 1, [](const Step& s) { return s.has(kRecv) && s.has(kSend); }).send_peer = 4;
  });
  expect_fault(tables(Collective::kBarrier, "hierarchical"), Check::kMatching,
               [](Tables& all) { erase_step(all[2], all[2].steps.size() - 1); });
}

/// Leaders that release their hosts before they have heard of each other.
TEST(PlantedInHierarchy, ReleasedTooEarly) {
  expect_fault(tables(Collective::kBarrier, "hierarchical"), Check::kContributions, [](Tables& all) {
    auto& steps = all[1].steps;
    std::swap(steps[steps.size() - 1], steps[steps.size() - 2]);
  });
}

TEST(PlantedInHierarchy, BlocksOfAnotherHost) {
  expect_fault(tables(Collective::kAllGather, "hierarchical"), Check::kMatching, [](Tables& all) {
    Step& step = find_step(all, 0, spreads);
    step.chunk = step.src_chunk = 0;
  });
  expect_fault(tables(Collective::kReduceScatter, "hierarchical"), Check::kMatching, [](Tables& all) {
    Step& step = find_step(all, 0, [](const Step& s) { return s.verbs == kSend; });
    step.chunk = step.src_chunk = (step.chunk + 1) % 7;
  });
}

/// What a driver collects for the next row must not lie where it still keeps that of this one.
TEST(PlantedInHierarchy, CollectedOverWhatIsStillNeeded) {
  expect_fault(tables(Collective::kReduceScatter, "hierarchical"), Check::kContributions, [](Tables& all) {
    for (Step& step : all[0].steps) {
      if (step.dst_buffer == BufferId::kScratch) step.dst_chunk = 0;
      if (step.src_buffer == BufferId::kScratch) step.src_chunk = 0;
    }
  });
}

/// An exchange of leaders through the output instead of scratch is right, but not by reference.
TEST(PlantedInHierarchy, LeadersExchangeTheirOutputs) {
  Tables all = tables(Collective::kAllReduce, "hierarchical_leaders");
  for (Schedule& table : all) {
    for (Step& step : table.steps) {
      if (step.src_buffer == BufferId::kScratch) step.src_buffer = BufferId::kOutput;
      if (step.dst_buffer == BufferId::kScratch) step.dst_buffer = BufferId::kOutput;
    }
  }
  EXPECT_FALSE(fault_in(all));
  const auto fault = fault_in(all, ProofOptions{Aliasing::kNone, 2, true, true});
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->check, Check::kReference);
}

TEST(PlantedInHierarchy, HostsAddedInTheWrongOrder) {
  expect_fault(tables(Collective::kReduce, "hierarchical_tree"), Check::kExpression,
               [](Tables& all) { find_step(all, 0, adds_from_network).flags ^= kOwnLeft; });
}

/// The leader of ranks 1 and 4, which are no neighbours, sends their blocks in two messages.
TEST(PlantedInHierarchy, BlocksOfRanksThatAreNoNeighboursInOneMessage) {
  const auto join = [](Tables& all) {
    for (Schedule& table : all) table.extent.message_chunks = 2;
    Step& sends = find_step(all, 1, [](const Step& step) { return step.has(kSend); });
    Step& receives = find_step(all, 0, [](const Step& step) { return step.recv_peer == 1; });
    sends.span.count = receives.span.count = 2;
    const auto second = [](const Step& step) {
      return step.chunk == 4 && (step.send_peer == 0 || step.recv_peer == 1);
    };
    for (const std::size_t rank : {std::size_t{0}, std::size_t{1}}) {
      const Step* const step = &find_step(all, rank, second);
      erase_step(all[rank], static_cast<std::size_t>(step - all[rank].steps.data()));
    }
  };
  expect_fault(tables(Collective::kGather, "hierarchical_leaders"), Check::kContributions, join);
}

TEST(PlantedInHierarchy, ALeaderThatHandsOutTheWrongBlock) {
  expect_fault(tables(Collective::kScatter, "hierarchical_leaders"), Check::kContributions,
               [](Tables& all) { find_step(all, 2, [](const Step& step) { return step.has(kSend); }).src_chunk = 0; });
}

/// Three hosts of three ranks one after another: in two rounds the rows have a place that no rank has.
Tables exchange_tables() {
  static const Topology topology(uniform_hosts(3, 3, false));
  return tables_of(Collective::kAllToAll, "hierarchical_2", Shape{9, 0, 0, 1, &topology.map()});
}
bool keeps(const Step& step) { return step.src_buffer == BufferId::kInput && step.dst_buffer == BufferId::kScratch; }

TEST(PlantedInHierarchy, APlaceThatIsNotFilled) {
  // A message of one row ends with its last rank, so three rows are made to travel together.
  static const Topology topology(uniform_hosts(8, 3, false));
  const Tables rows = tables_of(Collective::kAllToAll, "hierarchical_2", Shape{24, 0, 0, 1, &topology.map()});
  expect_fault(rows, Check::kMemory, [](Tables& all) {
    const auto fills = [](const Step& step) { return keeps(step) && step.dst_chunk == 4 * 1 + 3; };
    const Step* const step = &find_step(all, 5, fills);
    erase_step(all[5], static_cast<std::size_t>(step - all[5].steps.data()));
  });
}

TEST(PlantedInHierarchy, ARowForAnotherHost) {
  expect_fault(exchange_tables(), Check::kContributions, [](Tables& all) {
    std::swap(find_step(all, 4, keeps, 2).src_chunk, find_step(all, 4, keeps, 4).src_chunk);
  });
}

TEST(PlantedInHierarchy, ARowHandedOutBeforeTheLastRound) {
  expect_fault(exchange_tables(), Check::kContributions, [](Tables& all) {
    std::vector<Step>& steps = all[7].steps;
    const auto hands_out = [](const Step& step) { return step.dst_buffer == BufferId::kOutput; };
    const Step last = steps.back();
    ASSERT_TRUE(hands_out(last));
    steps.pop_back();
    steps.insert(std::find_if(steps.begin(), steps.end(), [](const Step& step) { return step.has(kSend); }), last);
  });
}

}  // namespace
}  // namespace tutti
