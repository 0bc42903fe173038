// Covers executor/device/device_interpreter.h, executor/device/device_port.h, executor/device/device_binding.cc.
// The device's interpreter on the host: every algorithm, few ranks, many sizes, messages in cells and in slots, tiles
// dealt to several thread blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "collectives/choice/catalogue.h"
#include "collectives/choice/choice.h"
#include "support/depth.h"
#include "support/device/device_trial.h"
#include "support/sanitized.h"

namespace tutti::test {
namespace {

/// Small rings, so that they wrap and credits run out.
DeviceGeometry small_geometry(int ranks) {
  DeviceGeometry geometry;
  geometry.ranks = ranks;
  geometry.blocks = 3;
  geometry.cell_bytes = 256;
  geometry.slot_bytes = 4096;
  return geometry;
}

bool can_be_in_place(const Algorithm& algorithm) { return algorithm.collective != Collective::kBarrier; }

class Interpreter : public ::testing::TestWithParam<int> {};

TEST_P(Interpreter, RunsEveryAlgorithm) {
  const int ranks = GetParam();
  DeviceWorld world(small_geometry(ranks));
  std::vector<std::size_t> counts{1, 2, 61, 64, 1009, 20011};
  if (!covers_all())
    counts = ranks > 4 ? std::vector<std::size_t>{1, 20011} : std::vector<std::size_t>{1, 61, 1009, 20011};
  if (kSanitized) counts = {1, 5003};
  const bool samples = ranks > 4 && !covers_all();  // each size in place for every second algorithm
  int turn = 0;
  bool next_in_place = false;
  for (const Algorithm& algorithm : catalogue()) {
    for (const std::size_t count : counts) {
      next_in_place = !next_in_place;
      for (const bool in_place : {false, true}) {
        if (in_place && !can_be_in_place(algorithm)) continue;
        if (samples && can_be_in_place(algorithm) && in_place != next_in_place) continue;
        const bool moves = algorithm.collective != Collective::kBarrier;
        DeviceCase one{&algorithm, 1, turn++ % ranks, moves ? count : 0, count > 5000 ? std::size_t{700} : 0,
                       in_place,   2};
        one.threads = 1 + static_cast<std::uint32_t>(turn) % 3;
        ASSERT_EQ(DeviceTrial(&world, one).run(), "");
      }
    }
    next_in_place = !next_in_place;
  }
}

// What is proved to be safe: peers read a message where it is taken from or stored, and nothing is copied into a slot.
TEST_P(Interpreter, ReadsWhatIsLentWhereItLies) {
  const int ranks = GetParam();
  std::vector<std::size_t> counts{257, 5003};
  if (ranks > 4 && !covers_all()) counts = {5003};
  int turn = 0;
  for (const Algorithm& algorithm : catalogue()) {
    if (algorithm.collective == Collective::kBarrier) continue;
    DeviceWorld world(small_geometry(ranks));
    bool lent = false;
    for (const bool in_place : {false, true}) {
      if (!is_reference_safe(algorithm, in_place)) continue;
      for (const std::size_t count : counts) {
        DeviceCase one{&algorithm, 1, turn++ % ranks, count, count > 5000 ? std::size_t{700} : 0, in_place, 2};
        one.lends = lent = true;
        ASSERT_EQ(DeviceTrial(&world, one).run(), "");
      }
    }
    int slots = 0;
    for (int rank = 0; rank < ranks; ++rank) slots += world.lent_slots(rank);
    // Others send what they made on the way, from scratch.
    const bool only_lends = std::string_view(algorithm.name).starts_with("all_pairs") && ranks > 1;
    EXPECT_TRUE(!lent || !only_lends || slots > 0) << name_of(algorithm.collective) << " " << algorithm.name;
  }
}

TEST_P(Interpreter, RunsLanesOfASchedule) {
  const int ranks = GetParam();
  DeviceWorld world(small_geometry(ranks));
  for (const Algorithm& algorithm : catalogue()) {
    for (const int lanes : {2, 3}) {
      if (lanes > algorithm.max_lanes) continue;
      const DeviceCase one{&algorithm, lanes, ranks - 1, 7919, 0, false, 2};  // barriers have one lane
      ASSERT_EQ(DeviceTrial(&world, one).run(), "");
    }
  }
}

// With the operation that takes its left operand, every result is the lowest rank's contribution: of no built-in
// operation can a result tell in which order two operands were given.
TEST_P(Interpreter, GivesOperandsInTheOrderOfRanks) {
  const int ranks = GetParam();
  DeviceWorld world(small_geometry(ranks));
  for (const Algorithm& algorithm : catalogue()) {
    if (algorithm.collective != Collective::kAllReduce && algorithm.collective != Collective::kReduce &&
        algorithm.collective != Collective::kReduceScatter)
      continue;
    for (const std::size_t count : {std::size_t{3}, std::size_t{1009}}) {
      DeviceCase one{&algorithm, 1, ranks / 2, count, 0, false, 2};
      one.lowest_wins = true;
      ASSERT_EQ(DeviceTrial(&world, one).run(), "");
    }
  }
}

// A broadcast's root waits for nobody but for credits: of every reader, also of those that are not the last one.
TEST_P(Interpreter, NeverOverrunsAReaderThatIsSlow) {
  const int ranks = GetParam();
  DeviceGeometry geometry = small_geometry(ranks);
  geometry.blocks = 1;
  geometry.slot_bytes = 512;
  DeviceWorld world(geometry);
  world.set_limit(60'000'000'000);  // a reader whose messages were overwritten waits for them for ever
  for (const Algorithm& algorithm : catalogue()) {
    if (algorithm.collective != Collective::kBroadcast) continue;
    // The first sends on in chains and trees, the last does not; those between repeat it.
    for (int slow = 1; slow < ranks; slow += covers_all() ? 1 : std::max(1, ranks - 2)) {
      for (const std::size_t tile : {std::size_t{16}, std::size_t{128}}) {  // in cells, in slots
        DeviceCase one{&algorithm, 1, 0, 24 * tile, tile, false, 2};
        one.slow = slow;
        ASSERT_EQ(DeviceTrial(&world, one).run(), "") << slow;
      }
    }
  }
}

/// Seven stand for the numbers above four that are no power of two; eight repeat what four do.
std::vector<int> numbers_of_ranks() {
  if (covers_all()) return {1, 2, 3, 4, 5, 7, 8};
  return {1, 2, 3, 4, 7};
}
INSTANTIATE_TEST_SUITE_P(Ranks, Interpreter, ::testing::ValuesIn(numbers_of_ranks()));

}  // namespace
}  // namespace tutti::test
