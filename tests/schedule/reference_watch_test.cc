// Covers schedule/reference_watch.cc.
// Messages by reference: the prover sees what is overwritten before it was read.
#include "schedule/reference_watch.h"

#include <gtest/gtest.h>

#include "schedule/step_builder.h"
#include "schedule/tables.h"

namespace tutti {
namespace {

constexpr ProofOptions kByReference{Aliasing::kNone, 2, true, true};

Step send(BufferId buffer, std::int32_t to) { return StepBuilder(0, 0).take(buffer, 0).send(to).step(); }
Step store(std::int32_t from, BufferId buffer) { return StepBuilder(0, 0).recv(from).store(buffer, 0).step(); }
Step copy() { return StepBuilder(0, 0).take(BufferId::kInput, 0).store(BufferId::kOutput, 0).step(); }

/// Rank 0 broadcasts by way of its output, then stores there again. Rank 2's answer, if it comes before, has no order
/// with rank 1's receipt.
Tables broadcast_and_store_again(std::int32_t answers) {
  Tables tables = tables_by_hand(Collective::kBroadcast, 3,
                                 {{0, copy()},
                                  {0, send(BufferId::kOutput, 1)},
                                  {0, send(BufferId::kOutput, 2)},
                                  {0, store(answers, BufferId::kOutput)}});
  for (std::int32_t rank = 1; rank < 3; ++rank) {
    append_step(tables[static_cast<std::size_t>(rank)], store(0, BufferId::kOutput));
  }
  append_step(tables[static_cast<std::size_t>(answers)], send(BufferId::kOutput, 0));
  return tables;
}

TEST(ReferenceRule, OneReadersAnswerSaysNothingOfTheOther) {
  for (const std::int32_t answers : {1, 2}) {
    const Tables tables = broadcast_and_store_again(answers);
    EXPECT_FALSE(fault_in(tables));
    const auto fault = fault_in(tables, kByReference);
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->check, Check::kReference);
    EXPECT_EQ(fault->rank, 0);
    EXPECT_EQ(fault->step, 3);
  }
}

TEST(ReferenceRule, AnAnswerThatPassedBothReadersIsEnough) {
  Tables tables = tables_by_hand(Collective::kBroadcast, 3,
                                 {{0, copy()},
                                  {0, send(BufferId::kOutput, 1)},
                                  {0, send(BufferId::kOutput, 2)},
                                  {0, store(2, BufferId::kOutput)},
                                  {1, store(0, BufferId::kOutput)},
                                  {1, send(BufferId::kOutput, 2)},
                                  {2, store(0, BufferId::kOutput)},
                                  {2, store(1, BufferId::kScratch)},
                                  {2, send(BufferId::kScratch, 0)}});
  const auto fault = fault_in(tables, kByReference);
  EXPECT_FALSE(fault) << fault->text;
}

/// The second send of rank 2 is the same message, sent before it heard of rank 1's receipt.
TEST(ReferenceRule, AnAnswerThatLeftTooEarlyIsNot) {
  const Tables tables = tables_by_hand(Collective::kBroadcast, 3,
                                       {{0, copy()},
                                        {0, send(BufferId::kOutput, 1)},
                                        {0, send(BufferId::kOutput, 2)},
                                        {0, store(2, BufferId::kOutput)},
                                        {1, store(0, BufferId::kOutput)},
                                        {1, send(BufferId::kOutput, 2)},
                                        {2, store(0, BufferId::kOutput)},
                                        {2, send(BufferId::kOutput, 0)},
                                        {2, store(1, BufferId::kScratch)}});
  EXPECT_FALSE(fault_in(tables));
  const auto fault = fault_in(tables, kByReference);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->check, Check::kReference);
}

/// What is sent from scratch is copied.
TEST(ReferenceRule, ScratchIsNotReferredTo) {
  const Tables tables = tables_by_hand(
      Collective::kReduce, 2,
      {{1, StepBuilder(0, 0).take(BufferId::kInput, 0).store(BufferId::kScratch, 0).send(0).step()},
       {0, store(1, BufferId::kScratch)},
       {0, send(BufferId::kScratch, 1)},
       {1, store(0, BufferId::kScratch)},
       {1, send(BufferId::kInput, 0)},
       {0, StepBuilder(0, 0).recv(1).reduce(BufferId::kInput, 0, true).complete().store(BufferId::kOutput, 0).step()}});
  const auto fault = fault_in(tables, kByReference);
  EXPECT_FALSE(fault) << fault->text;
}

}  // namespace
}  // namespace tutti
