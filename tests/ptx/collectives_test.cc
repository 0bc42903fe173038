// Covers executor/device/interpreter_kernel.cuh, executor/device/device_interpreter.h, executor/device/device_port.h.
// Every algorithm by the interpreter's own PTX, with one reduction and 96 threads a block.
#include <gtest/gtest.h>

#include <algorithm>

#include "collectives/choice/catalogue.h"
#include "executor/device/block_memory.h"
#include "ptx/word_interpreter.h"
#include "support/depth.h"
#include "support/device/device_trial.h"
#include "support/sanitized.h"

namespace tutti::ptx {
namespace {

using test::DeviceCase;
using test::DeviceTrial;
using test::DeviceWorld;
using test::Mirrors;

/// Small rings, so that they wrap and credits run out.
DeviceGeometry small_geometry(int ranks) {
  DeviceGeometry geometry;
  geometry.ranks = ranks;
  geometry.blocks = 2;
  geometry.cell_bytes = 256;
  geometry.slot_bytes = 4096;
  return geometry;
}

bool sends_to_all(const Algorithm& algorithm, int ranks) {
  const Schedule schedule = build_schedule(algorithm, Shape{ranks, 0, 0, 1, nullptr});
  return std::any_of(schedule.steps.begin(), schedule.steps.end(),
                     [](const Step& step) { return step.has(kSend) && step.send_to == PeerSet::kAll; });
}

/// Runs each algorithm that `wanted` takes with the counts, or with one of them in turn where not everything is
/// covered. The thread sanitizer, to which each order of two fibers costs much, takes every fourth algorithm.
template <class Wanted>
void run_algorithms(DeviceWorld* world, const std::vector<std::size_t>& counts, bool lends, const Wanted& wanted) {
  const int ranks = world->geometry().ranks;
  const bool each = test::covers_all() && !test::kSanitized;
  int turn = 0, found = 0;
  for (const Algorithm& algorithm : catalogue()) {
    if (!wanted(algorithm) || (test::kThreadSanitized && found++ % 4 != 0)) continue;
    const bool moves = algorithm.collective != Collective::kBarrier;
    for (std::size_t i = 0; i < (each ? counts.size() : 1); ++i, ++turn) {
      const std::size_t count = counts[each ? i : static_cast<std::size_t>(turn) % counts.size()];
      DeviceCase one{&algorithm, 1, turn % ranks, moves ? count : 0, count > 1000 ? std::size_t{700} : 0};
      one.in_place = moves && !lends && turn % 2 == 0;
      one.lends = lends;
      one.run = run_words;
      ASSERT_EQ(DeviceTrial(world, one).run(), "");
    }
  }
}

class PtxCollectives : public ::testing::TestWithParam<int> {
 protected:
  int ranks() const { return GetParam(); }
};

TEST_P(PtxCollectives, RunEveryAlgorithm) {
  DeviceWorld world(small_geometry(ranks()));
  run_algorithms(&world, {1, 5003, 61, 1009}, false, [](const Algorithm&) { return true; });
}

// Shared memory has no room for the shapes of all steps.
TEST_P(PtxCollectives, RunProgramsOfMoreStepsThanThereIsRoomFor) {
  DeviceWorld world(small_geometry(ranks()));
  for (const char* name : {"all_pairs", "all_pairs_two_shot", "ring"}) {
    DeviceCase one{find_algorithm(Collective::kAllReduce, name), 1, 0, 700, 100};
    one.run = run_words;
    one.times = static_cast<int>(kShapes);
    EXPECT_EQ(DeviceTrial(&world, one).run(), "");
  }
}

TEST_P(PtxCollectives, ReadWhatIsLentWhereItLies) {
  DeviceWorld world(small_geometry(ranks()));
  run_algorithms(&world, {5003}, true, [](const Algorithm& algorithm) {
    return algorithm.collective != Collective::kBarrier && is_reference_safe(algorithm, false);
  });
}

TEST_P(PtxCollectives, StoreToMirrorsOfAll) {
  for (const Mirrors mirrors : {Mirrors::kMulticast, Mirrors::kMapped}) {
    DeviceWorld world(small_geometry(ranks()), mirrors);
    run_algorithms(&world, {61, 1009}, false, [&](const Algorithm& one) { return sends_to_all(one, ranks()); });
  }
}

TEST_P(PtxCollectives, RunLanesOfASchedule) {
  DeviceWorld world(small_geometry(ranks()));
  for (const Algorithm& algorithm : catalogue()) {
    if (algorithm.max_lanes < 2) continue;
    DeviceCase one{&algorithm, 2, ranks() - 1, 1511};
    one.run = run_words;
    ASSERT_EQ(DeviceTrial(&world, one).run(), "");
  }
}

std::vector<int> rank_counts() {
  if (test::covers_all()) return {1, 2, 3, 4, 5, 8};
  return {2, 3};
}
INSTANTIATE_TEST_SUITE_P(Ranks, PtxCollectives, ::testing::ValuesIn(rank_counts()));

// By the device's clock. All threads of the block leave together, or the machine would say that a barrier is missed.
TEST(PtxWaits, EndAtTheDeadlineAndNameTheRank) {
  for (const std::size_t count : {std::size_t{9}, std::size_t{5003}}) {  // in a cell, in slots
    DeviceWorld world(small_geometry(2));
    world.set_limit(50'000'000);
    DeviceCase one{find_algorithm(Collective::kAllReduce, "all_pairs"), 1, 0, count, 700};
    one.run = run_words;
    DeviceTrial trial(&world, one);
    trial.run(0);
    EXPECT_EQ(world.report(0).failures[0], DeviceReport::pack(Code::kTimeout, 1));
  }
}

}  // namespace
}  // namespace tutti::ptx
