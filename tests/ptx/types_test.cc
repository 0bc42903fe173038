// Covers executor/device/interpreter_integers.cu, executor/device/interpreter_reals.cu,
// executor/device/interpreter_small_floats.cu, executor/device/interpreter_trees.cu.
// The PTX of the shipped interpreters, 512 threads a block: every type and operation, 2 to 8 ranks, and sums of up to 9
// ranks in the order of a tree. What the host's build of the interpreter makes of the same call is the result.
#include <gtest/gtest.h>

#include <thread>

#include "collectives/choice/catalogue.h"
#include "collectives/steps_together.h"
#include "kernels/all_types.h"
#include "kernels/kernels.h"
#include "kernels/oracle.h"
#include "ptx/grid.h"
#include "schedule/schedule.h"
#include "support/device/device_world.h"
#include "support/sanitized.h"

namespace tutti::ptx {

extern const Module interpreter_integers, interpreter_reals, interpreter_small_floats, interpreter_trees;

namespace {

using oracle::Row;
using test::DeviceWorld;

const Kernel& interpreter_of(DataType type, bool tree) {
  if (tree) return interpreter_trees.kernels[0];
  if (!is_float(type)) return interpreter_integers.kernels[0];
  const bool real = type == DataType::kFloat32 || type == DataType::kFloat64;
  return real ? interpreter_reals.kernels[0] : interpreter_small_floats.kernels[0];
}

class TypeTrial {
 public:
  TypeTrial(const Algorithm& algorithm, int ranks, DataType type, RedOp op, std::size_t count, bool tree = false)
      : algorithm_(algorithm), ranks_(ranks), type_(type), op_(op), count_(count), tree_(tree) {
    const std::size_t blocks = algorithm.collective == Collective::kReduceScatter ? static_cast<std::size_t>(ranks) : 1;
    inputs_ = oracle::random_rows(type, static_cast<std::size_t>(ranks), count * blocks, 5);
  }

  /// What the ranks' outputs are.
  std::vector<Row> run(bool by_ptx) const {
    DeviceGeometry geometry;
    geometry.ranks = ranks_;
    geometry.cell_bytes = 256;
    geometry.slot_bytes = 8192;
    DeviceWorld world(geometry);
    std::vector<Row> outputs(inputs_.size(), Row(count_ * size_of(type_).value, 0xe7));
    std::vector<std::thread> running;
    for (int rank = 0; rank < ranks_; ++rank)
      running.emplace_back([&, rank] { run(by_ptx, rank, &world, &outputs[static_cast<std::size_t>(rank)]); });
    for (std::thread& thread : running) thread.join();
    return outputs;
  }

 private:
  void run(bool by_ptx, int rank, DeviceWorld* world, Row* output) const {
    Schedule schedule = build_schedule(algorithm_, Shape{ranks_, rank, 0, 1, nullptr});
    mark_what_runs_together(&schedule);
    Launch launch;
    launch.schedule = &schedule;
    launch.carry(type_);
    launch.op = op_;
    launch.tree_order = tree_;
    launch.divisor = op_ == RedOp::kAvg ? static_cast<std::uint32_t>(ranks_) : 1;
    launch.input = reinterpret_cast<const std::byte*>(inputs_[static_cast<std::size_t>(rank)].data());
    launch.output = reinterpret_cast<std::byte*>(output->data());
    launch.count = Elems{count_};
    const std::size_t most = world->geometry().slot_bytes / launch.element.value / schedule.extent.message_chunks;
    launch.tile = Elems{most / 64 * 64 * schedule.extent.parts};
    DevicePlace place = world->place(rank);
    std::vector<std::byte> scratch(device_scratch(launch, world->geometry()).value + 64);
    place.scratch = scratch.data();
    DeviceCall call{};
    bind_device_call(launch, place, &call);
    if (schedule.steps.size() > kInlineSteps) call.table = schedule.steps.data();
    if (by_ptx) {
      ptx::run(interpreter_of(type_, tree_), &call, call.grid());
    } else {
      test::run_on_host(call, 2);
    }
  }

  const Algorithm& algorithm_;
  int ranks_;
  DataType type_;
  RedOp op_;
  std::size_t count_;
  bool tree_;
  std::vector<Row> inputs_;
};

bool makes_reductions(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduce ||
         collective == Collective::kReduceScatter;
}

class PtxTypes : public ::testing::TestWithParam<DataType> {};

// Each operation by each fourth algorithm, so that each algorithm has several of the operations.
TEST_P(PtxTypes, EveryOperationAndEveryAlgorithmThatReduces) {
  constexpr int kStride = test::kSanitized ? 16 : 4;
  int turn = 0;
  for (int op = 0; op < kRedOps; ++op) {
    if (reduce_kernel(GetParam(), static_cast<RedOp>(op)) == nullptr) continue;
    int number = op;
    for (const Algorithm& algorithm : catalogue()) {
      if (!makes_reductions(algorithm.collective) || number++ % kStride != 0) continue;
      const int ranks = 2 + turn++ % 7;
      const TypeTrial trial(algorithm, ranks, GetParam(), static_cast<RedOp>(op), turn % 2 == 0 ? 19 : 1009);
      ASSERT_EQ(trial.run(true), trial.run(false))
          << name_of(static_cast<RedOp>(op)) << ", " << algorithm.name << ", " << ranks << " ranks";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, PtxTypes, testing::ValuesIn(kAllTypes), name_of_type);

class PtxTrees : public ::testing::TestWithParam<DataType> {};

// Up to three sources the order does not show, from nine on trees go element by element.
TEST_P(PtxTrees, EveryOperationThatRounds) {
  const std::vector<int> sizes = test::kSanitized ? std::vector{5} : std::vector{3, 4, 5, 8, 9};
  int shows = 0;
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter}) {
    const Algorithm& algorithm = *find_algorithm(collective, "all_pairs");  // combines all operands at once
    for (const RedOp op : {RedOp::kSum, RedOp::kAvg, RedOp::kProd}) {
      for (const int ranks : sizes) {
        const TypeTrial trial(algorithm, ranks, GetParam(), op, 1009, true);
        const std::vector<Row> rows = trial.run(true);
        ASSERT_EQ(rows, trial.run(false)) << name_of(collective) << ", " << name_of(op) << ", " << ranks << " ranks";
        const bool differs = rows != TypeTrial(algorithm, ranks, GetParam(), op, 1009, false).run(false);
        ASSERT_TRUE(ranks > 3 || !differs);
        shows += differs ? 1 : 0;
      }
    }
  }
  const bool is_exact = size_of(GetParam()).value == 1;  // float holds any sum of so few small values
  EXPECT_TRUE(shows > 0 || is_exact) << "these operands cannot tell one order from the other";
}

INSTANTIATE_TEST_SUITE_P(Floats, PtxTrees,
                         testing::Values(DataType::kFloat16, DataType::kBfloat16, DataType::kFloat32,
                                         DataType::kFloat64, DataType::kFloat8e4m3, DataType::kFloat8e5m2),
                         name_of_type);

}  // namespace
}  // namespace tutti::ptx
