// Covers kernels/float16.h.
// The 16-bit floats: every value there and back, and rounding at every boundary, in the portable code and in what the
// instruction sets' kernels use.
#include "kernels/float16.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "kernels/kernels.h"
#include "kernels/oracle.h"
#include "kernels/simd_sets.h"

namespace tutti {
namespace {

template <class Codec>
std::uint16_t narrow(double value) {
  return Codec::narrow(static_cast<float>(value));
}

template <class Codec>
void check_round_trip(DataType type) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = Codec::widen(static_cast<std::uint16_t>(bits));
    const double expected = oracle::decode(type, bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_EQ(Codec::narrow(value), oracle::quiet_nan(type)) << bits;
    } else {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(static_cast<float>(expected)))
          << bits;
      ASSERT_EQ(Codec::narrow(value), bits);
    }
  }
}

/// Floats around every value of the format and every midpoint between two of them.
std::vector<float> boundaries(DataType type) {
  std::vector<float> values;
  const std::uint32_t infinity = static_cast<std::uint32_t>(oracle::encode(type, HUGE_VAL));
  for (std::uint32_t bits = 0; bits < infinity; ++bits) {
    const auto here = static_cast<float>(oracle::decode(type, bits));
    const double next =
        bits + 1 < infinity ? oracle::decode(type, bits + 1) : 2.0 * here - oracle::decode(type, bits - 1);
    const auto middle = static_cast<float>((static_cast<double>(here) + next) / 2);
    for (float value : {here, middle, std::nextafterf(middle, 0), std::nextafterf(middle, HUGE_VALF)}) {
      values.push_back(value);
      values.push_back(-value);
    }
  }
  return values;
}

template <class Codec>
void check_rounding(DataType type) {
  for (float value : boundaries(type)) ASSERT_EQ(Codec::narrow(value), oracle::encode(type, value)) << value;
}

TEST(HalfCodec, RoundTripsEveryValue) { check_round_trip<portable::HalfCodec>(DataType::kFloat16); }
TEST(HalfCodec, RoundsToNearestEven) { check_rounding<portable::HalfCodec>(DataType::kFloat16); }
TEST(BrainCodec, RoundTripsEveryValue) { check_round_trip<portable::BrainCodec>(DataType::kBfloat16); }
TEST(BrainCodec, RoundsToNearestEven) { check_rounding<portable::BrainCodec>(DataType::kBfloat16); }

TEST(HalfCodec, OverflowsToInfinity) {
  EXPECT_EQ(narrow<portable::HalfCodec>(65519.996), 0x7bff);
  EXPECT_EQ(narrow<portable::HalfCodec>(65520), 0x7c00);
  EXPECT_EQ(narrow<portable::HalfCodec>(-1e30), 0xfc00);
}

class Float16Kernel : public testing::TestWithParam<DataType> {};

// Adding zero shows both conversions of the kernel; a tiny addend on either side shows that it rounds once.
TEST_P(Float16Kernel, ConvertsEveryValueOnEverySet) {
  const DataType type = GetParam();
  constexpr std::size_t kCount = 0x10000;
  for (double addend : {0.0, 1e-9, -1e-9, 0.25, -1000.0}) {
    std::vector<oracle::Row> rows(2, oracle::Row(2 * kCount));
    for (std::size_t i = 0; i < kCount; ++i) {
      oracle::set_element(type, rows[0].data(), i, i);
      oracle::set_element(type, rows[1].data(), i, oracle::encode(type, addend));
    }
    const oracle::Row expected = oracle::reduce_rows(type, RedOp::kSum, rows, 1);
    const void* pointers[] = {rows[0].data(), rows[1].data()};
    for (const std::string& set : simd_sets()) {
      const SimdScope scope(set);
      oracle::Row result(2 * kCount);
      reduce_kernel(type, RedOp::kSum)({pointers, 2, result.data(), nullptr, kCount, 1, false});
      EXPECT_TRUE(result == expected) << set << " + " << addend;
    }
  }
}

TEST_P(Float16Kernel, AccumulatesManySourcesInFloat) {
  const DataType type = GetParam();
  // 1 + eight quarters of its last place: rounding after each addition would give 1.
  const double last_place = type == DataType::kFloat16 ? std::ldexp(1, -10) : std::ldexp(1, -7);
  const auto one = static_cast<std::uint16_t>(oracle::encode(type, 1));
  const auto quarter = static_cast<std::uint16_t>(oracle::encode(type, last_place / 4));
  const void* pointers[] = {&one, &quarter, &quarter, &quarter, &quarter, &quarter, &quarter, &quarter, &quarter};
  std::uint16_t result = 0;
  reduce_kernel(type, RedOp::kSum)({pointers, 9, &result, nullptr, 1, 1, false});
  EXPECT_EQ(oracle::decode(type, result), 1 + 2 * last_place);
}

INSTANTIATE_TEST_SUITE_P(Types, Float16Kernel, testing::Values(DataType::kFloat16, DataType::kBfloat16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace tutti
