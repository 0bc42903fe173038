// Covers schedule/prover.cc.
// Faults that need a schedule of their own: each differs from a right one, which is shown to pass, in one respect.
#include <gtest/gtest.h>

#include "schedule/step_builder.h"
#include "schedule/tables.h"

namespace tutti {
namespace {

constexpr BufferId kIn = BufferId::kInput;
constexpr BufferId kOut = BufferId::kOutput;
constexpr BufferId kTemp = BufferId::kScratch;

Step send_input(std::int32_t peer) { return StepBuilder(0, 0).take(kIn, 0).send(peer).step(); }
StepBuilder from(std::int32_t peer) { return StepBuilder(0, 0).recv(peer); }

/// Rank 0 adds {0}, what rank 1 sends first and what it sends second; rank 2's input comes through rank 1.
Tables reduce_of_three(bool rank1_adds_itself_twice) {
  StepBuilder pass_on = from(2);
  if (rank1_adds_itself_twice) pass_on.reduce(kIn, 0, true);
  return tables_by_hand(Collective::kReduce, 3,
                        {{2, send_input(1)},
                         {1, send_input(0)},
                         {1, pass_on.send(0).step()},
                         {0, from(1).reduce(kIn, 0, true).store(kOut, 0).step()},
                         {0, from(1).reduce(kOut, 0, true).complete().store(kOut, 0).step()}});
}

TEST(PlantedByHand, DoubledContribution) {
  EXPECT_FALSE(fault_in(reduce_of_three(false)));
  const auto fault = fault_in(reduce_of_three(true));
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->check, Check::kContributions) << fault->text;
  EXPECT_NE(fault->text.find("twice"), std::string::npos) << fault->text;
}

TEST(PlantedByHand, DoubledContributionByFingerprint) {
  const ProofOptions by_fingerprint{Aliasing::kNone, 2, false};
  EXPECT_FALSE(fault_in(reduce_of_three(false), by_fingerprint));
  const auto fault = fault_in(reduce_of_three(true), by_fingerprint);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->check, Check::kContributions) << fault->text;
}

/// Operands ascend everywhere. Rank 0 computes (0+1)+2; rank 1, if it is to differ, 0+(1+2); rank 2 gets rank 1's.
Tables all_reduce_of_three(bool same_tree) {
  const Step first = same_tree ? from(0).reduce(kIn, 0, false).store(kTemp, 0).step()
                               : from(2).reduce(kIn, 0, true).store(kTemp, 0).step();
  StepBuilder second = same_tree ? from(2).reduce(kTemp, 0, true) : from(0).reduce(kTemp, 0, false);
  return tables_by_hand(Collective::kAllReduce, 3,
                        {{1, send_input(0)},
                         {2, send_input(0)},
                         {2, send_input(1)},
                         {0, send_input(1)},
                         {0, from(1).reduce(kIn, 0, true).store(kOut, 0).step()},
                         {0, from(2).reduce(kOut, 0, true).complete().store(kOut, 0).step()},
                         {1, first},
                         {1, second.complete().store(kOut, 0).send(2).step()},
                         {2, from(1).store(kOut, 0).step()}});
}

TEST(PlantedByHand, RankDependentTree) {
  EXPECT_FALSE(fault_in(all_reduce_of_three(true)));
  for (const bool exact : {true, false}) {
    const auto fault = fault_in(all_reduce_of_three(false), ProofOptions{Aliasing::kNone, 2, exact});
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->check, Check::kExpression) << fault->text;
    EXPECT_EQ(fault->rank, 1);
    EXPECT_NE(fault->text.find("another order than on rank 0"), std::string::npos) << fault->text;
  }
}

/// Rank 0 stores the result and only then sends its input: in place the input is gone by then.
TEST(PlantedByHand, InPlaceOverwriteBeforeUse) {
  const Tables tables = tables_by_hand(Collective::kAllReduce, 2,
                                       {{1, send_input(0)},
                                        {0, from(1).reduce(kIn, 0, true).complete().store(kOut, 0).step()},
                                        {0, send_input(1)},
                                        {1, from(0).reduce(kIn, 0, false).complete().store(kOut, 0).step()}});
  EXPECT_FALSE(fault_in(tables, ProofOptions{Aliasing::kNone, 2, true}));
  EXPECT_FALSE(fault_in(tables, ProofOptions{Aliasing::kMixed, 2, true}));  // only rank 1 in place: it is careful
  const auto fault = fault_in(tables, ProofOptions{Aliasing::kAll, 2, true});
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->check, Check::kContributions) << fault->text;
  EXPECT_EQ(fault->rank, 1);
}

/// Lane 1 copies lane 0's part of the input on rank 1, where it does no harm out of place.
TEST(PlantedByHand, RaceOnlyInPlace) {
  Tables tables = tables_of(Collective::kReduceScatter, "all_pairs", Shape{2, 0, 0, 2});
  EXPECT_FALSE(fault_in(tables, ProofOptions{Aliasing::kAll, 2, true}));
  Schedule& one = tables[1];
  one.extent.scratch_chunks = 2;
  const auto copy_to_scratch = [](std::uint32_t lane, std::uint32_t chunk) {
    return StepBuilder(lane, chunk).take(kIn, chunk).store(kTemp, lane).step();
  };
  one.steps.insert(one.steps.begin() + 2,
                   copy_to_scratch(1, 2));  // lane 1's first step: its rank's own block, lane 0's part
  one.steps.insert(one.steps.begin(), copy_to_scratch(0, 0));
  ++one.steps_per_lane;
  EXPECT_FALSE(fault_in(tables, ProofOptions{Aliasing::kNone, 2, true}));
  const auto fault = fault_in(tables, ProofOptions{Aliasing::kMixed, 2, true});
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->check, Check::kMemory) << fault->text;
  EXPECT_NE(fault->text.find("another lane"), std::string::npos) << fault->text;
}

}  // namespace
}  // namespace tutti
