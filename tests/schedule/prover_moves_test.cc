// Covers schedule/prover.cc, schedule/prover_rules.cc.
// Faults planted in gather, scatter and all-to-all, where nothing is reduced: only places and origins can be wrong.
#include <gtest/gtest.h>

#include "schedule/step_builder.h"
#include "schedule/tables.h"

namespace tutti {
namespace {

constexpr BufferId kMovedIn = BufferId::kInput;
constexpr BufferId kMovedOut = BufferId::kOutput;
constexpr Shape kFourMoved{4, 0, 1, 1};  // root 1
constexpr const char* kExchanges[] = {"all_pairs", "pairwise"};

/// The number of the first step of `schedule` that sends to, or receives from, `peer`.
std::size_t step_with(const Schedule& schedule, Verb verb, std::int32_t peer) {
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    if (step.has(verb) && (verb == kSend ? step.send_peer : step.recv_peer) == peer) return i;
  }
  ADD_FAILURE() << "no such step";
  return 0;
}
Step& the_step(Schedule& schedule, Verb verb, std::int32_t peer) {
  return schedule.steps[step_with(schedule, verb, peer)];
}

TEST(PlantedMoves, MissingSend) {
  expect_fault(tables_of(Collective::kGather, "all_pairs", kFourMoved), Check::kMatching,
               [](Tables& t) { erase_step(t[3], 0); });
  expect_fault(tables_of(Collective::kScatter, "all_pairs", kFourMoved), Check::kMatching,
               [](Tables& t) { erase_step(t[1], step_with(t[1], kSend, 3)); });
  for (const char* name : kExchanges) {
    const Fault fault = expect_fault(tables_of(Collective::kAllToAll, name, kFourMoved), Check::kMatching,
                                     [](Tables& t) { erase_step(t[2], step_with(t[2], kSend, 0)); });
    EXPECT_EQ(fault.rank, 0);
    EXPECT_NE(fault.text.find("rank 2 never sends this"), std::string::npos) << fault.text;
  }
}

TEST(PlantedMoves, MissingReceive) {
  expect_fault(tables_of(Collective::kGather, "all_pairs", kFourMoved), Check::kMatching,
               [](Tables& t) { erase_step(t[1], step_with(t[1], kRecv, 3)); });
  for (const char* name : kExchanges) {
    expect_fault(tables_of(Collective::kAllToAll, name, kFourMoved), Check::kMatching,
                 [](Tables& t) { erase_step(t[2], step_with(t[2], kRecv, 0)); });
  }
}

TEST(PlantedMoves, BlocksStoredInEachOthersPlaces) {
  for (const bool exact : {true, false}) {
    const ProofOptions options{Aliasing::kNone, 2, exact};
    const auto swap_places = [](Tables& t) {
      std::swap(the_step(t[1], kRecv, 2).dst_chunk, the_step(t[1], kRecv, 3).dst_chunk);
    };
    const Fault fault = expect_fault(tables_of(Collective::kGather, "all_pairs", kFourMoved), Check::kContributions,
                                     swap_places, options);
    EXPECT_NE(fault.text.find("is not rank 2's input"), std::string::npos) << fault.text;
    for (const char* name : kExchanges) {
      expect_fault(tables_of(Collective::kAllToAll, name, kFourMoved), Check::kContributions, swap_places, options);
    }
  }
}

TEST(PlantedMoves, BlocksSentToEachOthersRanks) {
  const auto swap_data = [](Tables& t) {
    std::swap(the_step(t[1], kSend, 2).src_chunk, the_step(t[1], kSend, 3).src_chunk);
  };
  const auto swap_labels_too = [&](Tables& t) {
    swap_data(t);
    std::swap(the_step(t[1], kSend, 2).chunk, the_step(t[1], kSend, 3).chunk);
  };
  expect_fault(tables_of(Collective::kScatter, "all_pairs", kFourMoved), Check::kContributions, swap_data);
  expect_fault(tables_of(Collective::kScatter, "all_pairs", kFourMoved), Check::kMatching, swap_labels_too);
  for (const char* name : kExchanges) {
    expect_fault(tables_of(Collective::kAllToAll, name, kFourMoved), Check::kContributions, swap_data);
    expect_fault(tables_of(Collective::kAllToAll, name, kFourMoved), Check::kMatching, swap_labels_too);
  }
}

/// The right block of the wrong rank's input: the label and the place do not tell.
TEST(PlantedMoves, TheTransposedBlock) {
  expect_fault(tables_of(Collective::kAllToAll, "all_pairs", kFourMoved), Check::kContributions,
               [](Tables& t) { the_step(t[3], kSend, 0).src_chunk = 3; });
}

/// Rank 1 sends to rank 2 only after it has stored what rank 2 sent: in place its own block is gone by then.
TEST(PlantedMoves, InPlaceOverwriteBeforeTheSend) {
  for (const char* name : kExchanges) {
    Tables tables = tables_of(Collective::kAllToAll, name, Shape{5, 0, 0, 1});
    EXPECT_FALSE(fault_in(tables, ProofOptions{Aliasing::kAll, 2, true}));
    const std::size_t send = step_with(tables[1], kSend, 2);
    const Step late = tables[1].steps[send];
    erase_step(tables[1], send);
    append_step(tables[1], late);
    EXPECT_FALSE(fault_in(tables, ProofOptions{Aliasing::kNone, 2, true}));
    for (const Aliasing aliasing : {Aliasing::kAll, Aliasing::kMixed}) {
      const auto fault = fault_in(tables, ProofOptions{aliasing, 2, true});
      ASSERT_TRUE(fault) << name;
      EXPECT_EQ(fault->check, Check::kContributions) << fault->text;
      EXPECT_EQ(fault->rank, 2);
    }
  }
}

/// What comes from rank 3 is put where that of rank 0 lies already, or the own block over another's.
TEST(PlantedMoves, DoubledStore) {
  const auto same_place = [](Tables& t) { the_step(t[1], kRecv, 3).dst_chunk = 0; };
  const auto own_over_another = [](Tables& t) {
    Step own = the_step(t[1], kRecv, 3);  // to its place and with its size, but of the own input
    own.verbs = kStore;
    own.recv_from = PeerSet::kNone;
    own.recv_peer = -1;
    own.src_buffer = kMovedIn;
    append_step(t[1], own);
  };
  expect_fault(tables_of(Collective::kGather, "all_pairs", kFourMoved), Check::kContributions, same_place);
  expect_fault(tables_of(Collective::kGather, "all_pairs", kFourMoved), Check::kContributions, own_over_another);
  for (const char* name : kExchanges) {
    expect_fault(tables_of(Collective::kAllToAll, name, kFourMoved), Check::kContributions, same_place);
    expect_fault(tables_of(Collective::kAllToAll, name, kFourMoved), Check::kContributions, own_over_another);
  }
}

/// The copy of the own block may run at any time: nobody else may touch it, nothing with an order may come after it.
TEST(PlantedMoves, AsideThatIsNot) {
  const auto copy_of = [](Schedule& schedule) -> Step& { return schedule.steps.back(); };
  const ProofOptions options{Aliasing::kNone, 2, true};
  const auto over_another = [&](Tables& t) { copy_of(t[1]).dst_chunk = 2; };
  const auto ordered_after = [&](Tables& t) { std::swap(t[0].steps[0], copy_of(t[0])); };
  const auto a_receive = [&](Tables& t) { t[0].steps[t[0].steps.size() - 2].flags |= kAside; };
  for (const char* name : kExchanges) {
    const Tables right = tables_of(Collective::kAllToAll, name, kFourMoved);
    expect_fault(right, Check::kMemory, over_another, options);
    expect_fault(right, Check::kStep, ordered_after, options);
    expect_fault(right, Check::kStep, a_receive, options);
  }
}

TEST(PlantedMoves, OwnBlockNotCopied) {
  const auto drop_copy = [](Tables& t) {
    std::size_t copy = 0;
    while (t[1].steps[copy].verbs != kStore) ++copy;
    erase_step(t[1], copy);
  };
  for (const Aliasing aliasing : {Aliasing::kNone, Aliasing::kAll}) {
    const ProofOptions options{aliasing, 2, true};
    for (const Collective collective : {Collective::kGather, Collective::kScatter, Collective::kAllToAll}) {
      const Fault fault =
          expect_fault(tables_of(collective, "all_pairs", kFourMoved), Check::kContributions, drop_copy, options);
      EXPECT_NE(fault.text.find("is never stored"), std::string::npos) << fault.text;
    }
  }
}

TEST(PlantedMoves, RootsThatAreNot) {
  for (const Collective collective : {Collective::kGather, Collective::kScatter}) {
    // Sound, but for another root than it claims: root 2 has no output to gather in, no input to scatter.
    expect_fault(tables_of(collective, "all_pairs", kFourMoved), Check::kMemory, [](Tables& t) {
      for (Schedule& schedule : t) schedule.shape.root = 2;
    });
    Tables tables = tables_of(collective, "all_pairs", kFourMoved);
    tables[3] = build_schedule(*find_algorithm(collective, "all_pairs"), Shape{4, 3, 3, 1});
    EXPECT_TRUE(fault_in(tables)) << "rank 3 takes itself for the root";
  }
}

TEST(PlantedMoves, StoresWhereThereIsNoBuffer) {
  expect_fault(tables_of(Collective::kGather, "all_pairs", kFourMoved), Check::kMemory,
               [](Tables& t) { append_step(t[2], StepBuilder(0, 2).take(kMovedIn, 0).store(kMovedOut, 2).step()); });
  expect_fault(tables_of(Collective::kScatter, "all_pairs", kFourMoved), Check::kMemory,
               [](Tables& t) { append_step(t[2], StepBuilder(0, 2).take(kMovedIn, 2).store(kMovedOut, 0).step()); });
}

TEST(PlantedMoves, RaceOfTwoLanes) {
  expect_fault(tables_of(Collective::kAllToAll, "all_pairs", Shape{3, 0, 0, 2}), Check::kMemory, [](Tables& t) {
    for (Schedule& schedule : t) {  // lane 1 works on lane 0's parts
      for (Step& step : schedule.steps) {
        step.chunk &= ~1u;
        step.src_chunk &= ~1u;
        step.dst_chunk &= ~1u;
      }
    }
  });
}

TEST(PlantedMoves, ChunksThatTheResultDoesNotHave) {
  expect_fault(tables_of(Collective::kAllToAll, "all_pairs", kFourMoved), Check::kMemory,
               [](Tables& t) { the_step(t[1], kSend, 2).chunk = 16; });
  expect_fault(tables_of(Collective::kGather, "all_pairs", kFourMoved), Check::kMemory,
               [](Tables& t) { the_step(t[1], kRecv, 2).chunk = 4; });
}

TEST(PlantedMoves, ReceivingFirstDeadlocks) {
  expect_fault(tables_of(Collective::kAllToAll, "pairwise", kFourMoved), Check::kDeadlock, [](Tables& t) {
    for (Schedule& schedule : t) {
      for (std::size_t i = 0; i + 1 < schedule.steps.size(); ++i) {
        if (schedule.steps[i].has(kSend)) std::swap(schedule.steps[i], schedule.steps[i + 1]), ++i;
      }
    }
  });
}

}  // namespace
}  // namespace tutti
