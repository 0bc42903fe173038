// The CUDA kernels against the processor's, which are tested against an oracle: the same bits for every type and
// operation, on poisoned outputs with guards around them. Skipped where there is no GPU.
// Covers kernels/device/cuda_launch.cc, kernels/device/device_*.cu.
#include "kernels/device/device_kernels.h"

#include <gtest/gtest.h>

#include <random>

#include "kernels/all_types.h"
#include "kernels/kernels.h"
#include "kernels/oracle.h"
#include "kernels_cuda/device_memory.h"
#include "support/seed.h"

namespace tutti {
namespace {

using oracle::Row;

struct Layout {
  std::vector<std::size_t> sources;  ///< bytes beyond a multiple of 256, for each
  std::vector<std::size_t> destinations = {0};
  bool in_place = false;  ///< the first source is the first destination
  unsigned blocks = 4;
  bool tree = false;
};

Row expected_row(DataType type, RedOp op, const std::vector<Row>& rows, std::uint32_t divisor, bool tree) {
  std::vector<const void*> pointers;
  for (const Row& row : rows) pointers.push_back(row.data());
  Row result(rows[0].size());
  reduce_kernel(
      type, op)({pointers.data(), static_cast<int>(rows.size()), result.data(), nullptr,
                 result.size() / size_of(type).value, divisor, false, tree ? ReduceOrder::kTree : ReduceOrder::kLeft});
  return result;
}

class DeviceKernels : public testing::TestWithParam<DataType> {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  }
  DataType type() const { return GetParam(); }
  std::size_t size() const { return size_of(GetParam()).value; }

  void expect_same(RedOp op, const std::vector<Row>& rows, std::uint32_t divisor, const Layout& layout) const {
    const std::size_t bytes = rows[0].size();
    std::vector<DeviceMemory> destinations, sources;
    std::vector<void*> to;
    for (std::size_t offset : layout.destinations) to.push_back(destinations.emplace_back(offset, bytes).data());
    std::vector<const void*> from;
    for (std::size_t k = 0; k < rows.size(); ++k) {
      DeviceMemory& source =
          layout.in_place && k == 0 ? destinations[0] : sources.emplace_back(layout.sources[k], bytes);
      source.fill(rows[k].data());
      ASSERT_FALSE(source.failed());
      from.push_back(source.data());
    }
    const Status status = device::launch_reduce({from.data(), static_cast<int>(from.size()), to.data(),
                                                 static_cast<int>(to.size()), bytes / size(), divisor, layout.tree},
                                                type(), op, layout.blocks, nullptr);
    ASSERT_TRUE(status.ok()) << status.text();
    const Row expected = expected_row(type(), op, rows, divisor, layout.tree);
    for (const DeviceMemory& destination : destinations) {
      const Row result = destination.read();
      ASSERT_EQ(result.size(), bytes) << "written outside, or " << cudaGetErrorString(cudaGetLastError());
      const auto wrong = std::mismatch(expected.begin(), expected.end(), result.begin()).first - expected.begin();
      ASSERT_EQ(static_cast<std::size_t>(wrong), bytes)
          << name_of(op) << " of " << rows.size() << " sources, element " << static_cast<std::size_t>(wrong) / size();
    }
  }

  template <class Body>
  void for_each_operation(const Body& body) const {
    for (int op = 0; op < kRedOps; ++op) {
      if (reduce_kernel(type(), static_cast<RedOp>(op)) == nullptr) continue;
      body(static_cast<RedOp>(op));
      if (HasFatalFailure()) return;
    }
  }
};

TEST_P(DeviceKernels, RandomData) {
  SCOPED_TRACE(test::seed_text());
  std::mt19937 random(test::test_seed());
  for_each_operation([&](RedOp op) {
    for (std::size_t sources : {1, 2, 3, 8}) {
      for (std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{50021}}) {
        Layout layout;
        const std::size_t common = random() % 16 / size() * size();
        const bool alike = random() % 2 == 0;
        for (std::size_t k = 0; k < sources; ++k) layout.sources.push_back(alike ? common : random() % 16);
        layout.destinations = {alike ? common : random() % 16 / size() * size()};
        if (random() % 2 == 0) layout.destinations.push_back(alike ? common : random() % 16);
        layout.in_place = random() % 2 == 0;
        layout.tree = random() % 2 == 0;
        const auto divisor = op == RedOp::kAvg ? static_cast<std::uint32_t>(random() % 9 + 1) : 1;
        expect_same(op, oracle::random_rows(type(), sources, count, random()), divisor, layout);
        if (HasFatalFailure()) return;
      }
    }
  });
}

// For the device's conversions: all pairs of 8-bit values, all 16-bit values with the special ones.
TEST_P(DeviceKernels, EveryPairOfValues) {
  const std::vector<Row> rows = oracle::exhaustive_rows(type(), 64);
  Layout layout;
  layout.sources = {0, 0};
  layout.blocks = 64;
  for_each_operation([&](RedOp op) {
    for (const std::uint32_t divisor : {1u, 2u, 3u, 64u, 70000u, 0x80000001u}) {
      if (op == RedOp::kAvg || divisor == 1) expect_same(op, rows, divisor, layout);
      if (HasFatalFailure()) return;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Types, DeviceKernels, testing::ValuesIn(kAllTypes), name_of_type);

TEST(DeviceCopyKernel, EverySizeAndAlignment) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  SCOPED_TRACE(test::seed_text());
  std::mt19937 random(test::test_seed());
  for (std::size_t bytes : {1u, 15u, 16u, 17u, 1000u, 4096u, 70001u, 3000003u}) {
    for (int sample = 0; sample < 6; ++sample) {
      Row row(bytes);
      for (unsigned char& byte : row) byte = static_cast<unsigned char>(random());
      DeviceMemory source(random() % 16, bytes), first(sample % 2 == 0 ? 0 : random() % 16, bytes), second(0, bytes);
      source.fill(row.data());
      void* const to[] = {first.data(), second.data()};
      ASSERT_TRUE(device::launch_copy(source.data(), to, 2, Bytes{bytes}, 8, nullptr).ok());
      ASSERT_TRUE(first.read() == row && second.read() == row) << bytes;
    }
  }
}

TEST(DeviceKernelsLoad, AllOfThem) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  const Status status = device::load_kernels();
  EXPECT_TRUE(status.ok()) << status.text();
}

TEST(DeviceKernelsRefuse, WhatIsNotOffered) {
  const void* source = nullptr;
  void* destination = nullptr;
  const device::ReduceArgs args{&source, 1, &destination, 1, 0, 1};
  EXPECT_EQ(device::launch_reduce(args, DataType::kBool, RedOp::kAvg, 1, nullptr).code(), Code::kInvalidArgument);
  EXPECT_EQ(device::launch_reduce(args, DataType::kFloat32, RedOp::kBitOr, 1, nullptr).code(), Code::kInvalidArgument);
  EXPECT_TRUE(device::launch_reduce(args, DataType::kFloat32, RedOp::kSum, 1, nullptr).ok()) << "nothing to do";
  device::ReduceArgs many = args;
  many.source_count = device::kMostSources + 1;
  EXPECT_EQ(device::launch_reduce(many, DataType::kFloat32, RedOp::kSum, 1, nullptr).code(), Code::kInvalidArgument);
  EXPECT_EQ(device::launch_copy(nullptr, &destination, 0, Bytes{1}, 1, nullptr).code(), Code::kInvalidArgument);
}

// Where a pair is offered is one list for both, so this holds with and without a GPU.
TEST(DeviceKernelsRefuse, ExactlyWhatTheProcessorRefuses) {
  const void* source = nullptr;
  void* destination = nullptr;
  const device::ReduceArgs args{&source, 1, &destination, 1, 0, 1};
  for (int type = 0; type < kDataTypes; ++type) {
    for (int op = 0; op < kRedOps; ++op) {
      const Status status =
          device::launch_reduce(args, static_cast<DataType>(type), static_cast<RedOp>(op), 1, nullptr);
      EXPECT_EQ(status.ok(), reduce_kernel(static_cast<DataType>(type), static_cast<RedOp>(op)) != nullptr);
    }
  }
}

}  // namespace
}  // namespace tutti
