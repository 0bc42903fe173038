// Covers schedule/prover.cc, schedule/prover_rules.cc, schedule/symbolic_memory.cc, schedule/step_rules.cc,
// schedule/contribution.cc, schedule/link_table.cc.
// The prover is only worth something if it sees what is wrong: each test plants one fault in a schedule that was right.
#include <gtest/gtest.h>

#include "schedule/step_builder.h"
#include "schedule/tables.h"

namespace tutti {
namespace {

constexpr Shape kFourFaulty{4, 0, 0, 1};

TEST(PlantedFault, MissingSend) {
  const Fault fault = expect_fault(tables_of(Collective::kReduce, "all_pairs", kFourFaulty), Check::kMatching,
                                   [](Tables& t) { erase_step(t[2], 0); });
  EXPECT_EQ(fault.rank, 0);
  EXPECT_NE(fault.text.find("rank 2 never sends this"), std::string::npos) << fault.text;
}

TEST(PlantedFault, MissingSendInAnAllReduce) {
  expect_fault(tables_of(Collective::kAllReduce, "all_pairs_two_shot", kFourFaulty), Check::kMatching,
               [](Tables& t) { erase_step(t[1], 1); });
}

TEST(PlantedFault, MissingReceive) {
  const Fault fault = expect_fault(tables_of(Collective::kBroadcast, "all_pairs", kFourFaulty), Check::kMatching,
                                   [](Tables& t) { erase_step(t[3], 0); });
  EXPECT_EQ(fault.rank, 3);
}

TEST(PlantedFault, MissingReceiveOnAFullLink) {
  // More sends than credits: the sender stops, and the reason is a receive that is not there.
  const Fault fault =
      expect_fault(tables_of(Collective::kReduce, "all_pairs", kFourFaulty), Check::kMatching, [](Tables& t) {
        for (int i = 0; i < 3; ++i) append_step(t[1], t[1].steps[0]);
      });
  EXPECT_EQ(fault.rank, 1);
  EXPECT_NE(fault.text.find("rank 0 never receives this"), std::string::npos) << fault.text;
}

TEST(PlantedFault, WrongPeer) {
  expect_fault(tables_of(Collective::kBroadcast, "tree", Shape{8, 0, 0, 1}), Check::kMatching,
               [](Tables& t) { t[4].steps[0].send_peer = 7; });
}

TEST(PlantedFault, UnicastWhereMulticastIsRead) {
  expect_fault(tables_of(Collective::kBroadcast, "all_pairs", Shape{2, 0, 0, 1}), Check::kMatching, [](Tables& t) {
    t[0].steps[0].send_to = PeerSet::kOne;
    t[0].steps[0].send_peer = 1;
  });
}

TEST(PlantedFault, OtherChunk) {
  expect_fault(tables_of(Collective::kAllReduce, "ring", kFourFaulty), Check::kMatching, [](Tables& t) {
    Step& step = t[1].steps[0];
    step.chunk = step.src_chunk = 3;
  });
}

TEST(PlantedFault, RightLabelWrongData) {
  // With one part all chunks are of one size, and the label is right: only the contributions tell.
  expect_fault(tables_of(Collective::kReduceScatter, "ring", kFourFaulty), Check::kContributions,
               [](Tables& t) { t[1].steps[0].src_chunk = 3; });
}

TEST(PlantedFault, DoubledContribution) {
  // Rank 1 adds what it got to its partial result once more instead of its input.
  const Fault fault = expect_fault(tables_of(Collective::kAllReduce, "recursive_doubling", kFourFaulty),
                                   Check::kContributions, [](Tables& t) {
                                     for (Schedule& schedule : t) {
                                       Step& last = schedule.steps[2];
                                       const Step& first = schedule.steps[1];
                                       const std::int32_t peer = first.recv_peer;
                                       schedule.steps[1].send_peer = last.recv_peer = peer;
                                       const bool left = schedule.shape.rank < peer;
                                       last.flags = static_cast<std::uint8_t>(kComplete | (left ? kOwnLeft : 0));
                                     }
                                   });
  EXPECT_NE(fault.text.find("twice"), std::string::npos) << fault.text;
}

TEST(PlantedFault, MissingContributionByFingerprint) {
  Tables tables = tables_of(Collective::kReduce, "chain", kFourFaulty);
  Step& middle = tables[2].steps[0];
  middle.verbs = kRecv | kSend;  // passes on what it got, without its own
  middle.src_buffer = BufferId::kNone;
  middle.flags = 0;
  const auto fault = fault_in(tables, ProofOptions{Aliasing::kNone, 2, false});
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->check, Check::kContributions) << fault->text;
}

TEST(PlantedFault, MissingContribution) {
  expect_fault(tables_of(Collective::kReduce, "chain", kFourFaulty), Check::kContributions, [](Tables& t) {
    Step& middle = t[2].steps[0];
    middle.verbs = kRecv | kSend;
    middle.src_buffer = BufferId::kNone;
    middle.flags = 0;
  });
}

TEST(PlantedFault, OutputNeverStored) {
  const Fault fault =
      expect_fault(tables_of(Collective::kAllGather, "all_pairs", kFourFaulty), Check::kContributions, [](Tables& t) {
        Step& step = t[2].steps[0];
        step.verbs = kSend;
        step.dst_buffer = BufferId::kNone;
      });
  EXPECT_EQ(fault.rank, 2);
}

TEST(PlantedFault, RaceOfTwoLanes) {
  expect_fault(tables_of(Collective::kAllReduce, "all_pairs", Shape{2, 0, 0, 2}), Check::kMemory, [](Tables& t) {
    // Lane 1 works on lane 0's part.
    for (Schedule& schedule : t) {
      for (Step& step : schedule.steps) step.chunk = step.src_chunk = step.dst_chunk = 0;
    }
  });
}

TEST(PlantedFault, RingDeadlocksAtOneCredit) {
  for (const std::int32_t n : {2, 3, 4, 7, 32}) {
    const Tables tables = tables_of(Collective::kAllReduce, "ring", Shape{n, 0, 0, 1});
    EXPECT_FALSE(fault_in(tables, ProofOptions{Aliasing::kNone, 2, true}));
    const auto fault = fault_in(tables, ProofOptions{Aliasing::kNone, 1, true});
    ASSERT_TRUE(fault) << n;
    EXPECT_EQ(fault->check, Check::kDeadlock) << fault->text;
    EXPECT_NE(fault->text.find("waits for a credit"), std::string::npos) << fault->text;
  }
}

TEST(PlantedFault, DeadlockByReceivingFirst) {
  const Fault fault =
      expect_fault(tables_of(Collective::kAllReduce, "all_pairs", Shape{3, 0, 0, 1}), Check::kDeadlock, [](Tables& t) {
        for (Schedule& schedule : t) std::swap(schedule.steps[0], schedule.steps[1]);
      });
  EXPECT_NE(fault.text.find("waits for a message"), std::string::npos) << fault.text;
}

TEST(PlantedFault, RankDependentOrder) {
  // Own first, whatever the rank: right sums, but not the same bits everywhere.
  const Fault fault = expect_fault(tables_of(Collective::kAllReduce, "recursive_doubling", kFourFaulty),
                                   Check::kExpression, [](Tables& t) {
                                     for (Schedule& schedule : t) {
                                       for (Step& step : schedule.steps) {
                                         if (step.has(kReduce)) step.flags |= kOwnLeft;
                                       }
                                     }
                                   });
  EXPECT_EQ(fault.rank, 1);
}

TEST(PlantedFault, CompleteTooEarly) {
  expect_fault(tables_of(Collective::kAllReduce, "ring", kFourFaulty), Check::kContributions,
               [](Tables& t) { t[2].steps[1].flags |= kComplete; });
}

TEST(PlantedFault, CompleteNotMarked) {
  expect_fault(tables_of(Collective::kAllReduce, "all_pairs_two_shot", kFourFaulty), Check::kContributions,
               [](Tables& t) { t[2].steps[3].flags = 0; });
}

TEST(PlantedFault, RanksThatDisagreeOnTheRoot) {
  for (const char* name : {"all_pairs", "chain", "tree"}) {
    for (const Collective collective : {Collective::kBroadcast, Collective::kReduce}) {
      Tables tables = tables_of(collective, name, kFourFaulty);
      tables[1] = build_schedule(*find_algorithm(collective, name), Shape{4, 1, 1, 1});
      EXPECT_TRUE(fault_in(tables)) << name;
    }
  }
}

TEST(PlantedFault, AllRanksWithTheWrongRoot) {
  // The program is sound, but for another root than it claims: root 2 has nothing to send, or nothing in its output.
  for (const char* name : {"all_pairs", "chain", "tree"}) {
    for (const Collective collective : {Collective::kBroadcast, Collective::kReduce}) {
      expect_fault(tables_of(collective, name, kFourFaulty), Check::kMemory, [](Tables& t) {
        for (Schedule& schedule : t) schedule.shape.root = 2;
      });
    }
  }
}

TEST(PlantedFault, ReadsBeforeItIsWritten) {
  expect_fault(tables_of(Collective::kBroadcast, "tree", Shape{4, 0, 0, 1}), Check::kMemory,
               [](Tables& t) { t[0].steps[1].src_buffer = BufferId::kOutput, erase_step(t[0], 0); });
}

TEST(PlantedFault, StoresWhereThereIsNoBuffer) {
  const auto stray = [](Tables& t) {
    t[1].steps[0].verbs |= kStore;
    t[1].steps[0].dst_buffer = BufferId::kOutput;
  };
  const Fault fault = expect_fault(tables_of(Collective::kReduce, "all_pairs", kFourFaulty), Check::kMemory, stray);
  EXPECT_EQ(fault.rank, 1);
  expect_fault(tables_of(Collective::kReduce, "tree", Shape{8, 0, 1, 1}), Check::kMemory,
               [](Tables& t) { t[5].extent.scratch_chunks = 0; });
}

TEST(PlantedFault, ChunksOfDifferentSizes) {
  expect_fault(tables_of(Collective::kAllGather, "ring", Shape{3, 0, 0, 2}), Check::kMemory,
               [](Tables& t) { t[0].steps[0].dst_chunk = 1; });
}

TEST(PlantedFault, MalformedSteps) {
  const auto expect = [](const std::function<void(Step&)>& spoil) {
    expect_fault(tables_of(Collective::kAllReduce, "ring", kFourFaulty), Check::kStep,
                 [&](Tables& t) { spoil(t[1].steps[1]); });
  };
  expect([](Step& s) { s.verbs = 0; });
  expect([](Step& s) { s.verbs = kReduce | kSend; });
  expect([](Step& s) { s.recv_peer = 1; });
  expect([](Step& s) { s.send_peer = 4; });
  expect([](Step& s) { s.lane = 1; });
  expect([](Step& s) { s.dst_buffer = BufferId::kOutput; });
  expect([](Step& s) { s.src_buffer = BufferId::kNone; });
  expect([](Step& s) { s.send_to = PeerSet::kNone; });
}

TEST(PlantedFault, BarrierThatLeavesTooEarly) {
  const Fault fault = expect_fault(tables_of(Collective::kBarrier, "dissemination", Shape{5, 0, 0, 1}),
                                   Check::kContributions, [](Tables& t) {
                                     for (Schedule& schedule : t) {
                                       erase_step(schedule, 3);
                                       Step& last = schedule.steps[2];
                                       last = StepBuilder(0, 0).recv(last.recv_peer).step();
                                     }
                                   });
  EXPECT_NE(fault.text.find("has arrived"), std::string::npos) << fault.text;
}

TEST(Prove, NamesWhatItProved) {
  const Algorithm& ring = *find_algorithm(Collective::kAllReduce, "ring");
  EXPECT_TRUE(prove(ring, Shape{5, 0, 0, 2}, ProofOptions{}).ok());
  EXPECT_TRUE(prove(ring, Shape{5, 0, 0, 2}, ProofOptions{Aliasing::kAll, 2, false}).ok());
  const Status status = prove(ring, Shape{5, 0, 0, 2}, ProofOptions{Aliasing::kNone, 1, true});
  EXPECT_EQ(status.code(), Code::kInternalError);
  EXPECT_NE(status.text().find("all_reduce ring"), std::string::npos) << status.text();
  EXPECT_NE(status.text().find("deadlock"), std::string::npos) << status.text();
}

}  // namespace
}  // namespace tutti
