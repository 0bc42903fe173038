// Covers kernels/float8.h.
// The 8-bit floats: every value there and back, rounding at every boundary and beyond the largest, in the portable code
// and in what the instruction sets' kernels use.
#include "kernels/float8.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <iterator>

#include "kernels/kernels.h"
#include "kernels/oracle.h"
#include "kernels/simd_sets.h"
#include "support/depth.h"

namespace tutti {
namespace {

/// The portable code of a type, one value at a time.
float widen(DataType type, std::uint8_t bits) {
  if (type == DataType::kFloat8e4m3) return portable::Float8e4m3Codec::widen(bits);
  return portable::Float8e5m2Codec::widen(bits);
}
std::uint8_t narrow(DataType type, float value) {
  if (type == DataType::kFloat8e4m3) return portable::Float8e4m3Codec::narrow(value);
  return portable::Float8e5m2Codec::narrow(value);
}

class Float8 : public testing::TestWithParam<DataType> {};

TEST_P(Float8, RoundTripsEveryValue) {
  for (std::uint32_t bits = 0; bits < 256; ++bits) {
    const float value = widen(GetParam(), static_cast<std::uint8_t>(bits));
    const double expected = oracle::decode(GetParam(), bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_EQ(narrow(GetParam(), value), oracle::quiet_nan(GetParam())) << bits;
    } else {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(static_cast<float>(expected)));
      EXPECT_EQ(narrow(GetParam(), value), bits);
    }
  }
}

// Every sign, every exponent, and the mantissas on, beside and between all boundaries of either format: the upper six
// bits of the mantissa in every combination, the others all zero, all one, or next to that.
TEST_P(Float8, RoundsToTheNearestOfAllValues) {
  for (std::uint32_t upper = 0; upper < (1u << 15); ++upper) {
    for (std::uint32_t lower : {0u, 1u, 0x10000u, 0x1fffeu, 0x1ffffu}) {
      const float value = std::bit_cast<float>(upper << 17 | lower);
      ASSERT_EQ(narrow(GetParam(), value), oracle::encode(GetParam(), value)) << value;
    }
  }
}

TEST(Float8e4m3, OverflowsToNan) {
  const DataType type = DataType::kFloat8e4m3;
  EXPECT_EQ(narrow(type, 448), 0x7e);
  EXPECT_EQ(narrow(type, -464), 0xfe) << "a tie, to even";
  for (float beyond : {464.0001f, -465.0f, 480.0f, -1e30f, HUGE_VALF, -HUGE_VALF, std::nanf("1"), -std::nanf("")}) {
    EXPECT_EQ(narrow(type, beyond), 0x7f) << beyond;
  }
  EXPECT_EQ(widen(type, 0x7e), 448);
  EXPECT_EQ(widen(type, 0x01), std::ldexp(1.0f, -9));
}

TEST(Float8e5m2, OverflowsToInfinity) {
  const DataType type = DataType::kFloat8e5m2;
  EXPECT_EQ(narrow(type, 57344), 0x7b);
  EXPECT_EQ(narrow(type, -61439.99f), 0xfb);
  for (float beyond : {61440.0f, 65536.0f, 1e30f, HUGE_VALF}) {
    EXPECT_EQ(narrow(type, beyond), 0x7c) << beyond;
    EXPECT_EQ(narrow(type, -beyond), 0xfc) << beyond;
  }
  EXPECT_EQ(narrow(type, std::nanf("1")), 0x7e);
  EXPECT_EQ(narrow(type, -std::nanf("")), 0x7e);
  EXPECT_EQ(widen(type, 0x7b), 57344);
  EXPECT_EQ(widen(type, 0x01), std::ldexp(1.0f, -16));
}

// Every pair of values, so that a sum of the two rounds, overflows and cancels in all ways there are; more sources
// bring in intermediate results that the type does not have. Short runs take one of the four third values for each
// operation.
TEST_P(Float8, KernelsCombineEveryPair) {
  const DataType type = GetParam();
  constexpr std::size_t kCount = 256 * 256;
  constexpr oracle::Bits kThirds[] = {0x00, 0x38, 0x81, 0xfe};
  for (std::size_t which = 0; which < std::size(kThirds); ++which) {
    const oracle::Bits third = kThirds[which];
    std::vector<oracle::Row> rows(3, oracle::Row(kCount));
    for (std::size_t i = 0; i < kCount; ++i) {
      rows[0][i] = static_cast<unsigned char>(i / 256);
      rows[1][i] = static_cast<unsigned char>(i % 256);
      rows[2][i] = static_cast<unsigned char>(third);
    }
    const void* pointers[] = {rows[0].data(), rows[1].data(), rows[2].data()};
    for (RedOp op : {RedOp::kSum, RedOp::kProd, RedOp::kMax, RedOp::kMin, RedOp::kAvg}) {
      if (!test::covers_all() && static_cast<std::size_t>(op) % std::size(kThirds) != which) continue;
      const std::uint32_t divisor = op == RedOp::kAvg ? 3 : 1;
      const oracle::Row expected = oracle::reduce_rows(type, op, rows, divisor);
      for (const std::string& set : simd_sets()) {
        const SimdScope scope(set);
        oracle::Row result(kCount);
        reduce_kernel(type, op)({pointers, 3, result.data(), nullptr, kCount, divisor});
        EXPECT_TRUE(result == expected) << name_of(op) << " " << set << " with " << third;
      }
    }
  }
}

TEST_P(Float8, KernelsAccumulateManySourcesInFloat) {
  // 8 + 16 ones: rounding after each addition would stop at 16, where a one is half of a last place.
  const std::uint8_t one = narrow(GetParam(), 1);
  const std::uint8_t eight = narrow(GetParam(), 8);
  std::array<const void*, 17> pointers;
  pointers.fill(&one);
  pointers[0] = &eight;
  for (const std::string& set : simd_sets()) {
    const SimdScope scope(set);
    std::uint8_t result = 0;
    reduce_kernel(GetParam(), RedOp::kSum)({pointers.data(), 17, &result, nullptr, 1});
    EXPECT_EQ(widen(GetParam(), result), 24) << set;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Float8, testing::Values(DataType::kFloat8e4m3, DataType::kFloat8e5m2),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace tutti
