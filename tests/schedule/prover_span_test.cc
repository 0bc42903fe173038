// Covers schedule/prover.cc, schedule/span.h.
// Faults planted in steps that move several chunks in one message, each seen by the check it belongs to.
#include <gtest/gtest.h>

#include "schedule/span.h"
#include "schedule/step_builder.h"
#include "schedule/tables.h"

namespace tutti {
namespace {

constexpr Shape kSix{6, 0, 0, 1};
constexpr Shape kEight{8, 0, 0, 1};

/// The first step of `schedule` with several chunks and these verbs.
Step& long_step(Schedule& schedule, std::uint8_t verbs) {
  for (Step& step : schedule.steps) {
    if (step.span.count > 1 && (step.verbs & verbs) == verbs) return step;
  }
  ADD_FAILURE() << "no such step";
  return schedule.steps.front();
}

// Distances, by hand: at compile time as well.
static_assert(Span{5, 0, 0}.distance(4) == 4 && Span{5, 3, 3}.distance(4) == 4);
static_assert(Span{5, 0, 2}.distance(3) == 12);
static_assert(Span{5, 1, 2}.distance(1) == 1 && Span{5, 1, 2}.distance(2) == 4 && Span{5, 1, 2}.distance(3) == 5);
static_assert(chunk_at(7, 2, 1, 9) == 9 && chunk_at(7, 2, 4, 2) == 3 && chunk_at(7, 2, 4, 2, true) == 3);
static_assert(chunk_at(1, 1, 4, 2, true) == 7 && chunk_at(6, 5, 4, 2) == 0);

TEST(PlantedSpan, FewerChunksReceivedThanSent) {
  const Fault fault = expect_fault(tables_of(Collective::kAllGather, "bruck", kSix), Check::kMatching,
                                   [](Tables& t) { --long_step(t[1], kRecv).span.count; });
  EXPECT_NE(fault.text.find("sends 2 chunks from 3 on here"), std::string::npos) << fault.text;
  expect_fault(tables_of(Collective::kAllGather, "bruck", kSix), Check::kMatching, [](Tables& t) {
    Step& step = long_step(t[1], kRecv);
    step.span.count = 2;
    ++step.chunk;
  });
}

TEST(PlantedSpan, AChunkTooMany) {
  expect_fault(tables_of(Collective::kAllGather, "bruck", kSix), Check::kStep,
               [](Tables& t) { ++long_step(t[1], kRecv).span.count; });
  expect_fault(tables_of(Collective::kAllGather, "bruck", kSix), Check::kStep, [](Tables& t) {
    for (Schedule& schedule : t) schedule.extent.message_chunks = 1;
  });
  expect_fault(tables_of(Collective::kAllGather, "bruck", kSix), Check::kStep,
               [](Tables& t) { ++t[3].extent.message_chunks; });
}

TEST(PlantedSpan, OtherChunksThanTheLabelsSay) {
  for (const bool exact : {true, false}) {
    const ProofOptions options{Aliasing::kNone, 2, exact};
    expect_fault(
        tables_of(Collective::kAllGather, "pat", kEight), Check::kContributions,
        [](Tables& t) { t[2].steps.back().dst_chunk = 5; }, options);
    expect_fault(
        tables_of(Collective::kAllToAll, "bruck", kSix), Check::kContributions,
        [](Tables& t) { t[2].steps.back().flags = 0; }, options);
    expect_fault(
        tables_of(Collective::kAllToAll, "bruck", kEight), Check::kContributions,
        [](Tables& t) { t[2].steps[1].src_chunk = 4; }, options);
  }
}

TEST(PlantedSpan, AContributionOfAnotherChunk) {
  expect_fault(tables_of(Collective::kReduceScatter, "pat", kEight), Check::kContributions,
               [](Tables& t) { long_step(t[2], kSend).src_chunk = 4; });
  expect_fault(tables_of(Collective::kAllReduce, "halving_doubling", kEight), Check::kMemory,
               [](Tables& t) { ++long_step(t[2], kSend).src_chunk; });
}

TEST(PlantedSpan, TheWrongOperandOnTheLeft) {
  for (const char* name : {"pat", "recursive_halving"}) {
    expect_fault(tables_of(Collective::kReduceScatter, name, kSix), Check::kExpression,
                 [](Tables& t) { long_step(t[4], kReduce).flags ^= kOwnLeft; });
  }
}

/// Where a round has two messages, their reductions need different orders.
TEST(PlantedSpan, OneMessageWhereTwoOrdersAreNeeded) {
  const Algorithm& halving = *find_algorithm(Collective::kReduceScatter, "recursive_halving");
  int divided = 0;
  for (std::int32_t n = 3; n <= 16; ++n) {
    Tables tables = tables_of(halving, Shape{n, 0, 0, 1});
    for (Schedule& schedule : tables) {
      for (std::size_t i = 0; i + 1 < schedule.steps.size(); ++i) {
        const Step& first = schedule.steps[i];
        const Step& second = schedule.steps[i + 1];
        const bool pair = first.has(kReduce) && second.has(kReduce) && first.recv_peer == second.recv_peer;
        if (!pair) continue;
        ++divided;
        EXPECT_NE(first.is(kOwnLeft), second.is(kOwnLeft));
      }
    }
  }
  EXPECT_GT(divided, 0);
}

TEST(PlantedSpan, AStepThatOverlapsItself) {
  const Step shifts = StepBuilder(0, 0).take(BufferId::kOutput, 0).store(BufferId::kOutput, 1).span(4).step();
  const Fault fault = expect_fault(tables_of(Collective::kAllGather, "bruck", kSix), Check::kMemory,
                                   [&](Tables& t) { append_step(t[0], shifts); });
  EXPECT_NE(fault.text.find("another of its chunks"), std::string::npos) << fault.text;
}

/// In place the input's own block is the output's.
TEST(PlantedSpan, AnOverlapOnlyInPlace) {
  const auto shift = [](Tables& t) {
    append_step(t[2], StepBuilder(0, 12).take(BufferId::kInput, 0).store(BufferId::kOutput, 1).span(3).step());
  };
  const auto fault = [&](Aliasing aliasing) {
    Tables tables = tables_of(Collective::kAllToAll, "bruck", kSix);
    shift(tables);
    return fault_in(tables, ProofOptions{aliasing, 2, true});
  };
  ASSERT_TRUE(fault(Aliasing::kNone));
  EXPECT_EQ(fault(Aliasing::kNone)->check, Check::kContributions);
  ASSERT_TRUE(fault(Aliasing::kAll));
  EXPECT_EQ(fault(Aliasing::kAll)->check, Check::kMemory);
}

TEST(PlantedSpan, MalformedSteps) {
  const std::function<void(Step&)> plants[] = {
      [](Step& step) { step.span.count = 0; },
      [](Step& step) { step.span.run = 1; },
      [](Step& step) { step.flags |= kMulticastRecv; },
  };
  for (const auto& plant : plants) {
    expect_fault(tables_of(Collective::kAllGather, "bruck", kSix), Check::kStep,
                 [&](Tables& t) { plant(long_step(t[1], kRecv)); });
  }
  expect_fault(tables_of(Collective::kAllGather, "bruck", kSix), Check::kStep, [](Tables& t) {
    Step& step = long_step(t[1], kSend);
    step.send_to = PeerSet::kAll;
    step.send_peer = -1;
  });
  expect_fault(tables_of(Collective::kAllGather, "bruck", kSix), Check::kStep,
               [](Tables& t) { long_step(t[1], kSend).flags |= kDescending; });
  expect_fault(tables_of(Collective::kAllReduce, "halving_doubling", kEight), Check::kStep,
               [](Tables& t) { long_step(t[1], kSend).span.period = 1; });
  expect_fault(tables_of(Collective::kBarrier, "dissemination", kEight), Check::kStep,
               [](Tables& t) { t[1].steps[0].span.count = 2; });
}

/// The executors take a set's messages of several chunks as one range.
TEST(PlantedSpan, OfASetThatIsNoRange) {
  const auto scatters = [](Tables& all) -> Step& {
    for (Step& step : all[1].steps)
      if (step.recv_from == PeerSet::kGroup && step.span.count > 1) return step;
    ADD_FAILURE() << "no such step";
    return all[1].steps.front();
  };
  const Shape twelve{12, 0, 0, 1};
  EXPECT_FALSE(fault_in(tables_of(Collective::kAllReduce, "scatter_exchange_2", twelve)));
  const Fault fault = expect_fault(tables_of(Collective::kAllReduce, "scatter_exchange_2", twelve), Check::kStep,
                                   [&](Tables& all) { scatters(all).dst_buffer = BufferId::kScratch; });
  EXPECT_NE(fault.text.find("do not adjoin"), std::string::npos) << fault.text;
}

/// Beyond the end of one block's parts there is nothing.
TEST(PlantedSpan, ChunksBeyondTheEnd) {
  expect_fault(tables_of(Collective::kAllReduce, "halving_doubling", kEight), Check::kMemory, [](Tables& t) {
    append_step(t[0], StepBuilder(0, 6).take(BufferId::kInput, 6).store(BufferId::kOutput, 6).span(3).step());
  });
}

/// What is sent by reference may be read from any chunk of the span.
TEST(PlantedSpan, AnOverwrittenChunkOfAMessage) {
  const ProofOptions by_reference{Aliasing::kNone, 2, true, true};
  const auto overwrite = [](Tables& t) {
    append_step(t[1], StepBuilder(0, 2).take(BufferId::kOutput, 3).store(BufferId::kOutput, 2).step());
  };
  const Fault fault =
      expect_fault(tables_of(Collective::kAllGather, "bruck", kSix), Check::kReference, overwrite, by_reference);
  EXPECT_EQ(fault.rank, 1);
}

}  // namespace
}  // namespace tutti
