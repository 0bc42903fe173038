// Covers kernels/mapping.h.
// Scaling and conversions: every type on every instruction set against the scalar oracle, every tail and misalignment,
// in place, and nothing written outside.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "kernels/guarded.h"
#include "kernels/kernels.h"
#include "kernels/oracle.h"
#include "kernels/simd_sets.h"

namespace tutti {
namespace {

using oracle::Row;

std::string name_of_type(const testing::TestParamInfo<DataType>& info) { return name_of(info.param); }

std::vector<DataType> all_types() {
  std::vector<DataType> types;
  for (int t = 0; t < kDataTypes; ++t) types.push_back(static_cast<DataType>(t));
  return types;
}

class Scale : public testing::TestWithParam<DataType> {
 protected:
  std::size_t size() const { return size_of(GetParam()).value; }

  /// Scales the first `count` elements from one offset to another; empty, or what is wrong.
  std::string error_of(const Row& row, oracle::Bits scalar, std::size_t count, std::size_t from, std::size_t to,
                       bool in_place) const {
    const std::size_t bytes = count * size();
    Guarded destination(to, bytes);
    Row source(from + bytes);
    std::copy_n(row.data(), bytes, in_place ? destination.data() : source.data() + from);
    Row factor(1 + size());  // at an odd address
    oracle::set_element(GetParam(), factor.data() + 1, 0, scalar);
    scale(GetParam(), destination.data(), in_place ? destination.data() : source.data() + from, count,
          factor.data() + 1);
    for (std::size_t i = 0; i < count; ++i) {
      const oracle::Bits values[] = {oracle::element(GetParam(), row.data(), i), scalar};
      const oracle::Bits want = oracle::reduce(GetParam(), RedOp::kProd, values, 1);
      const oracle::Bits got = oracle::element(GetParam(), destination.data(), i);
      if (got != want) {
        return std::to_string(values[0]) + " * " + std::to_string(scalar) + " is " + std::to_string(got) + ", not " +
               std::to_string(want);
      }
    }
    return destination.guards_untouched() ? "" : "written outside the destination";
  }
};

TEST_P(Scale, EveryTailAndMisalignment) {
  const std::size_t most = (4 * 64 + 2 * 64) / size() + 3;
  const Row row = oracle::random_rows(GetParam(), 1, most, 9)[0];
  const oracle::Bits scalar = is_float(GetParam()) ? oracle::encode(GetParam(), 1.625) : 3;
  for (const std::string& set : simd_sets()) {
    const SimdScope scope(set);
    for (std::size_t count = 0; count <= most; ++count) {
      ASSERT_EQ(error_of(row, scalar, count, count % 5, count % 7, count % 3 == 0), "") << count << " " << set;
    }
    for (std::size_t offset = 0; offset < 64; ++offset) {
      ASSERT_EQ(error_of(row, scalar, most, 5 * offset % 64, offset, offset % 2 == 0), "") << offset << " " << set;
    }
  }
}

TEST_P(Scale, EveryPairOfSpecialValues) {
  const auto special = oracle::special_values(GetParam());
  Row row(special.size() * size());
  for (std::size_t i = 0; i < special.size(); ++i) oracle::set_element(GetParam(), row.data(), i, special[i]);
  for (const std::string& set : simd_sets()) {
    const SimdScope scope(set);
    for (oracle::Bits scalar : special) ASSERT_EQ(error_of(row, scalar, special.size(), 0, 0, false), "") << set;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Scale, testing::ValuesIn(all_types()), name_of_type);

class Conversion : public testing::TestWithParam<DataType> {
 protected:
  std::size_t size() const { return size_of(GetParam()).value; }
};

/// Floats of every sign and exponent, whose mantissas lie on and beside the boundaries of all the types.
std::vector<float> dense_floats() {
  std::vector<float> values;
  for (std::uint32_t upper = 0; upper < (1u << 15); ++upper) {
    for (std::uint32_t lower : {0u, 1u, 0x1000u, 0x1001u, 0xffffu, 0x10000u, 0x1fffeu, 0x1ffffu}) {
      values.push_back(std::bit_cast<float>(upper << 17 | lower));
    }
  }
  return values;
}

TEST_P(Conversion, NarrowsToTheNearest) {
  const std::vector<float> values = dense_floats();
  Row expected(values.size() * size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    oracle::set_element(GetParam(), expected.data(), i, oracle::encode(GetParam(), values[i]));
  }
  for (const std::string& set : simd_sets()) {
    const SimdScope scope(set);
    Row result(expected.size());
    narrow_floats(GetParam(), result.data(), values.data(), values.size());
    const auto differs = std::mismatch(result.begin(), result.end(), expected.begin()).first - result.begin();
    EXPECT_TRUE(result == expected) << set << " " << values[static_cast<std::size_t>(differs) / size()];
  }
}

TEST_P(Conversion, WidensEveryValue) {
  const std::size_t count = std::size_t{1} << (8 * size());
  Row all(count * size());
  for (std::size_t i = 0; i < count; ++i) oracle::set_element(GetParam(), all.data(), i, i);
  for (const std::string& set : simd_sets()) {
    const SimdScope scope(set);
    std::vector<float> result(count);
    widen_floats(GetParam(), result.data(), all.data(), count, false);
    Row back(all.size());
    narrow_floats(GetParam(), back.data(), result.data(), count);
    for (std::size_t i = 0; i < count; ++i) {
      const double want = oracle::decode(GetParam(), i);
      const bool nan = std::isnan(want);
      const std::uint32_t bits = nan ? 0x7fc00000u : std::bit_cast<std::uint32_t>(static_cast<float>(want));
      ASSERT_EQ(std::bit_cast<std::uint32_t>(result[i]), bits) << i << " " << set;
      ASSERT_EQ(oracle::element(GetParam(), back.data(), i), nan ? oracle::quiet_nan(GetParam()) : i) << set;
    }
  }
}

TEST_P(Conversion, EveryTailAndMisalignment) {
  constexpr std::size_t kMost = 150;
  const Row row = oracle::random_rows(GetParam(), 1, kMost, 4)[0];
  for (const std::string& set : simd_sets()) {
    const SimdScope scope(set);
    for (std::size_t count = 0; count <= kMost; ++count) {
      const std::size_t offset = (count * 5 + 1) % 64;
      for (bool stream : {false, true}) {
        Row stored(offset + count * size());  // to the byte, so that the address sanitizer sees a read too far
        std::copy_n(row.data(), count * size(), stored.data() + offset);
        Guarded floats(stream && count % 2 == 0 ? 0 : offset, 4 * count);
        auto* const wide = reinterpret_cast<float*>(floats.data());
        widen_floats(GetParam(), wide, stored.data() + offset, count, stream);
        Row expected(4 * count);
        for (std::size_t i = 0; i < count; ++i) {
          const double value = oracle::decode(GetParam(), oracle::element(GetParam(), row.data(), i));
          oracle::set_element(DataType::kFloat32, expected.data(), i, oracle::encode(DataType::kFloat32, value));
        }
        ASSERT_TRUE(std::equal(expected.begin(), expected.end(), floats.data())) << count << " " << set;
        Guarded back(count % 9, count * size());
        narrow_floats(GetParam(), back.data(), wide, count);
        for (std::size_t i = 0; i < count; ++i) {
          const oracle::Bits bits = oracle::element(GetParam(), row.data(), i);
          const bool nan = std::isnan(oracle::decode(GetParam(), bits));
          ASSERT_EQ(oracle::element(GetParam(), back.data(), i), nan ? oracle::quiet_nan(GetParam()) : bits) << set;
        }
        ASSERT_TRUE(floats.guards_untouched() && back.guards_untouched()) << count << " " << set;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Conversion,
                         testing::Values(DataType::kFloat8e4m3, DataType::kFloat8e5m2, DataType::kFloat16,
                                         DataType::kBfloat16),
                         name_of_type);

TEST(ConversionOfOtherTypes, HasNoEffect) {
  const float one = 1;
  float result = 5;
  for (DataType type : {DataType::kInt8, DataType::kFloat32, DataType::kFloat64, DataType::kBool}) {
    narrow_floats(type, &result, &one, 1);
    widen_floats(type, &result, &one, 1, false);
    EXPECT_EQ(result, 5) << name_of(type);
  }
}

}  // namespace
}  // namespace tutti
