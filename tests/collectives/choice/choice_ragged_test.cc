// Covers collectives/choice/choice.cc.
// Blocks of different sizes: a schedule serves them if each of its steps works on one block, because a step whose block
// has no such tile is then skipped on both ends of a message alike.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "collectives/choice/choice.h"
#include "schedule/effort.h"
#include "schedule/step_builder.h"
#include "schedule/tables.h"
#include "schedule/topologies.h"

namespace tutti {
namespace {

bool has_v_form(Collective collective) {
  return collective == Collective::kAllGather || collective == Collective::kAllToAll;
}

/// The block of the result that a step works on, from its label: (source rank, destination rank); an all-gather's
/// blocks have no destination.
struct Pair {
  std::int32_t source;
  std::int32_t destination;
};
Pair pair_of(const Schedule& schedule, std::uint32_t chunk) {
  if (schedule.algorithm->collective == Collective::kAllGather) return {static_cast<std::int32_t>(chunk), -1};
  const auto n = static_cast<std::uint32_t>(schedule.shape.ranks);
  return {static_cast<std::int32_t>(chunk / n), static_cast<std::int32_t>(chunk % n)};
}

/// Whether what the step takes from the input and stores into the output is the block of its label, and it has one of
/// the two, so that its size can be told. What it receives and sends is of the label by proof ("matching").
bool concerns_one_block(const Schedule& schedule, const Step& step) {
  const Pair pair = pair_of(schedule, step.chunk);
  const std::int32_t rank = schedule.shape.rank;
  const bool gathers = pair.destination == -1;
  const bool takes = step.src_buffer != BufferId::kNone;
  const bool stores = step.has(kStore);
  if (step.span.count != 1) return false;
  if (step.has(kReduce) || step.recv_from == PeerSet::kAll || !(takes || stores)) return false;
  const std::uint32_t in_input = gathers ? 0 : static_cast<std::uint32_t>(pair.destination);
  const bool from_input = step.src_buffer == BufferId::kInput && pair.source == rank && step.src_chunk == in_input;
  const bool from_output = gathers && step.src_buffer == BufferId::kOutput && step.src_chunk == step.chunk;
  const bool right_source = from_input || from_output;
  const bool right_place = step.dst_buffer == BufferId::kOutput && (gathers || pair.destination == rank) &&
                           step.dst_chunk == static_cast<std::uint32_t>(pair.source);
  return (!takes || right_source) && (!stores || right_place);
}

bool concerns_one_block(const Algorithm& algorithm, std::int32_t n, const HostMap* hosts = nullptr) {
  for (std::int32_t rank = 0; rank < n; ++rank) {
    const Schedule table = build_schedule(algorithm, Shape{n, rank, 0, 1, hosts});
    if (table.extent.parts != 1) return false;
    for (const Step& step : table.steps) {
      if (!concerns_one_block(table, step)) return false;
    }
  }
  return true;
}

TEST(Ragged, CapableAlgorithmsWorkOnOneBlockAStep) {
  for (const Algorithm& algorithm : catalogue()) {
    if (!has_v_form(algorithm.collective)) {
      EXPECT_FALSE(is_ragged_capable(algorithm)) << algorithm.name;
      continue;
    }
    bool always = true;  // for few ranks a message has one chunk, whatever the algorithm
    for (const std::int32_t n : proved_ranks()) always = always && concerns_one_block(algorithm, n);
    EXPECT_EQ(always, is_ragged_capable(algorithm)) << algorithm.name;
  }
}

TEST(Ragged, AStepOfTwoBlocksIsSeen) {
  Schedule gather = build_schedule(*find_algorithm(Collective::kAllGather, "ring"), Shape{4, 1, 0, 1});
  EXPECT_TRUE(concerns_one_block(gather, gather.steps[1]));
  gather.steps[1].dst_chunk = 3;
  EXPECT_FALSE(concerns_one_block(gather, gather.steps[1]));
  Schedule exchange = build_schedule(*find_algorithm(Collective::kAllToAll, "all_pairs"), Shape{4, 1, 0, 1});
  EXPECT_TRUE(concerns_one_block(exchange, exchange.steps[0]));
  exchange.steps[0].src_chunk = 3;
  EXPECT_FALSE(concerns_one_block(exchange, exchange.steps[0]));
  const Step passes_on = StepBuilder(0, 2).recv(0).send(2).step();
  EXPECT_FALSE(concerns_one_block(gather, passes_on)) << "its size cannot be told";
}

/// Passes with blocks missing at random, then a whole one, so that the outcome is that of the collective: tables as the
/// executor runs them, tile by tile, and what is aside in the end. Out of place, where a second pass reads the same
/// input again.
Tables with_missing_blocks(const Algorithm& algorithm, std::int32_t n, std::mt19937& random,
                           const HostMap* hosts = nullptr) {
  const Tables whole = tables_of(algorithm, Shape{n, 0, 0, 1, hosts});
  Tables tables = whole;
  for (Schedule& table : tables) table.steps.clear();
  const std::size_t blocks = static_cast<std::size_t>(n) * static_cast<std::size_t>(n);
  for (int pass = 0; pass < 5; ++pass) {
    const std::uint32_t present = random() % 4;  // of four: from none to three quarters
    std::vector<bool> has_tile(blocks);
    for (std::size_t block = 0; block < blocks; ++block) has_tile[block] = pass == 4 || random() % 4 < present;
    for (std::size_t rank = 0; rank < tables.size(); ++rank) {
      for (const Step& step : whole[rank].steps) {
        if (has_tile[step.chunk]) tables[rank].steps.push_back(step);
      }
    }
  }
  for (Schedule& table : tables) {
    std::stable_partition(table.steps.begin(), table.steps.end(), [](const Step& step) { return !step.is(kAside); });
    table.steps_per_lane = static_cast<std::uint32_t>(table.steps.size());
  }
  return tables;
}

TEST(Ragged, SkippedStepsMatchAndDoNotDeadlock) {
  std::mt19937 random(11);
  for (const Algorithm& algorithm : catalogue()) {
    if (!is_ragged_capable(algorithm)) continue;
    for (std::int32_t n = 2; n <= (kReduced ? 12 : 40); ++n) {
      for (int round = 0; round < 5; ++round) {
        const auto fault = fault_in(with_missing_blocks(algorithm, n, random));
        ASSERT_FALSE(fault) << name_of(algorithm.collective) << " " << algorithm.name << ": " << fault->text;
      }
    }
  }
}

/// Where ranks span hosts a driver hands on what others gave it: the output's block of the label is as good a source as
/// the input's.
TEST(Ragged, HierarchicalAllGathersServeEveryPlacement) {
  std::mt19937 random(12);
  const Algorithm& gather = *find_algorithm(Collective::kAllGather, "hierarchical");
  ASSERT_TRUE(is_ragged_capable(gather));
  const auto check = [&](const HostList& hosts) {
    const Topology topology(hosts);
    const auto n = static_cast<std::int32_t>(hosts.size());
    ASSERT_TRUE(concerns_one_block(gather, n, &topology.map())) << to_text(hosts);
    const auto fault = fault_in(with_missing_blocks(gather, n, random, &topology.map()));
    ASSERT_FALSE(fault) << to_text(hosts) << ": " << fault->text;
  };
  for (int n = 2; n <= (kReduced ? 5 : 7); ++n) {
    for_each_partition(n, [&](const HostList& hosts) { check(hosts); });
    ASSERT_FALSE(HasFatalFailure());
  }
  for (int round = 0; round < (kReduced ? 20 : 300); ++round) {
    ASSERT_NO_FATAL_FAILURE(check(random_hosts(2 + static_cast<int>(random() % 31), random)));
  }
}

/// If only the receiver skips, the message stays or is taken for the next one.
TEST(Ragged, ASkipOnOneSideIsSeen) {
  for (const Algorithm& algorithm : catalogue()) {
    if (!is_ragged_capable(algorithm)) continue;
    Tables tables = tables_of(algorithm, Shape{4, 0, 0, 1});
    std::size_t receive = 0;
    while (!tables[2].steps[receive].has(kRecv)) ++receive;
    erase_step(tables[2], receive);
    const auto fault = fault_in(tables);
    ASSERT_TRUE(fault) << algorithm.name;
    EXPECT_EQ(fault->check, Check::kMatching) << fault->text;
  }
}

}  // namespace
}  // namespace tutti
