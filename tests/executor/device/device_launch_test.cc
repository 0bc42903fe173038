// Covers executor/device/device_launch.cc.
#include "executor/device/device_launch.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tutti {
namespace {

const Kernel& kernel_of(DataType type, RedOp op, bool tree_order, int ranks) {
  DeviceCall call{};
  call.type = type;
  call.op = op;
  call.tree_order = tree_order;
  call.ranks = ranks;
  return interpreter_of(call);
}

TEST(KernelOfACall, IsThatOfTreesWhereTheOrderShows) {
  const Kernel& trees = kernel_of(DataType::kFloat32, RedOp::kSum, true, 4);
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat64, DataType::kFloat8e5m2})
    for (const RedOp op : {RedOp::kSum, RedOp::kAvg, RedOp::kProd})
      EXPECT_EQ(&kernel_of(type, op, true, 4), &trees) << name_of(type) << ", " << name_of(op);
  const Kernel& reals = kernel_of(DataType::kFloat32, RedOp::kSum, false, 4);
  EXPECT_NE(&reals, &trees);
  EXPECT_EQ(&kernel_of(DataType::kFloat32, RedOp::kSum, true, 3), &reals);
  EXPECT_EQ(&kernel_of(DataType::kFloat32, RedOp::kMax, true, 4), &reals);
  EXPECT_EQ(&kernel_of(DataType::kInt32, RedOp::kSum, true, 4), &kernel_of(DataType::kInt32, RedOp::kSum, false, 4));
}

TEST(KernelOfACall, IsLoadedBeforeTheFirstCall) {
  const auto loaded = kernels_of_collectives();
  for (const DataType type : {DataType::kInt8, DataType::kFloat16, DataType::kFloat32})
    for (const bool tree_order : {false, true}) {
      const Kernel* const kernel = &kernel_of(type, RedOp::kSum, tree_order, 8);
      EXPECT_EQ(std::count(loaded.begin(), loaded.end(), kernel), 1) << name_of(type);
    }
}

}  // namespace
}  // namespace tutti
