// Covers executor/device/device_passes.cu, kernels/device/device_pass.h, kernels/device/device_conversion.h,
// kernels/device/device_rows.h.
// The PTX of the passes, whose conversions are the device's instructions, against the processor's kernels.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <string_view>

#include "kernels/device/device_pass.h"
#include "kernels/device/device_rows.h"
#include "kernels/kernels.h"
#include "kernels/oracle.h"
#include "ptx/grid.h"

namespace tutti::ptx {

extern const Module device_passes;

namespace {

constexpr DataType kWireTypes[] = {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8e4m3,
                                   DataType::kFloat8e5m2};

void run_kernel(std::string_view name, const void* parameter) {
  for (const Kernel& kernel : device_passes.kernels)
    if (std::string_view(kernel.name).find(name) != std::string_view::npos) run(kernel, parameter, 2);
}

std::vector<float> widened(DataType type) {
  const std::size_t size = size_of(type).value;
  const std::size_t all = std::size_t{1} << (8 * size);
  oracle::Row row(all * size);
  for (std::size_t i = 0; i < all; ++i) oracle::set_element(type, row.data(), i, i);
  std::vector<float> by_ptx(all), by_host(all);
  const DevicePass pass{DevicePass::Kind::kWiden, type, row.data(), by_ptx.data(), all};
  run_kernel("run_pass", &pass);
  widen_floats(type, by_host.data(), row.data(), all, false);
  for (std::size_t i = 0; i < all; ++i)
    EXPECT_EQ(std::bit_cast<std::uint32_t>(by_ptx[i]), std::bit_cast<std::uint32_t>(by_host[i])) << i;
  return by_host;
}

/// Both signs of each value of the type, of what lies half way to the next one, and of the floats beside these.
std::vector<float> near_values(const std::vector<float>& values) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> near{kInfinity, -kInfinity, std::numeric_limits<float>::max(), 1e-45F, -1e-45F, 464, 480, 61440};
  for (std::size_t i = 0; i + 1 < values.size() / 2; ++i) {
    const float half_way = values[i] + (values[i + 1] - values[i]) / 2;
    for (const float one : {values[i], half_way})
      for (const float beside : {one, std::nextafter(one, kInfinity), std::nextafter(one, -kInfinity)})
        near.insert(near.end(), {beside, -beside});
  }
  return near;
}

class PtxPasses : public ::testing::TestWithParam<DataType> {};

TEST_P(PtxPasses, WidenEveryValueAndRoundToEach) {
  const std::vector<float> values = near_values(widened(GetParam()));
  const std::size_t size = size_of(GetParam()).value;
  oracle::Row by_ptx(values.size() * size, 0xe7), by_host(values.size() * size);
  const DevicePass pass{DevicePass::Kind::kNarrow, GetParam(), values.data(), by_ptx.data(), values.size()};
  run_kernel("run_pass", &pass);
  narrow_floats(GetParam(), by_host.data(), values.data(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(oracle::element(GetParam(), by_ptx.data(), i), oracle::element(GetParam(), by_host.data(), i))
        << values[i];
}

// By packs, whose lanes are widened and narrowed a word at a time.
TEST_P(PtxPasses, ScaleEveryValue) {
  const DataType type = GetParam();
  const std::size_t size = size_of(type).value;
  const std::size_t all = std::size_t{1} << (8 * size);
  alignas(16) static unsigned char from[131072], by_ptx[131072];
  for (std::size_t i = 0; i < all; ++i) oracle::set_element(type, from, i, i);
  for (const double factor : {1.0, -1.0, 0.75, 3.0, 0.0, 1e30}) {
    std::uint64_t scalar = oracle::encode(type, factor);
    const DevicePass pass{DevicePass::Kind::kScale, type, from, by_ptx, all, nullptr, scalar};
    run_kernel("run_pass", &pass);
    oracle::Row by_host(all * size);
    scale(type, by_host.data(), from, all, &scalar);
    for (std::size_t i = 0; i < all; ++i)
      ASSERT_EQ(oracle::element(type, by_ptx, i), oracle::element(type, by_host.data(), i)) << i << " * " << factor;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, PtxPasses, ::testing::ValuesIn(kWireTypes),
                         [](const auto& one) { return name_of(one.param); });

TEST(PtxRows, AreCopiedByUnitsOfEachSize) {
  for (const std::size_t unit : {std::size_t{16}, std::size_t{4}, std::size_t{1}}) {
    constexpr std::size_t kRows = 5;
    const std::size_t width = 37 * unit, pitch = 40 * unit;
    alignas(16) unsigned char from[kRows * 640], to[kRows * 640];
    for (std::size_t i = 0; i < sizeof(from); ++i) from[i] = static_cast<unsigned char>(i * 7 + i / 256);
    std::memset(to, 0xe7, sizeof(to));
    const RowsCopy copy{to, pitch, from, pitch, width, kRows};
    run_kernel("copy_rows", &copy);
    for (std::size_t i = 0; i < sizeof(to); ++i) {
      const bool inside = i < kRows * pitch && i % pitch < width;
      ASSERT_EQ(to[i], inside ? from[i] : 0xe7) << unit << ' ' << i;
    }
  }
}

}  // namespace
}  // namespace tutti::ptx
