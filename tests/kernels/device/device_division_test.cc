// Covers kernels/device/device_lanes.h.
// Averages divide by multiplications where types are so small that these are exact; they are compared with divisions.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "kernels/device/device_lanes.h"

namespace tutti {
namespace {

/// All divisors that have been numbers of ranks, and some that no group has.
std::vector<std::uint32_t> many_divisors(std::uint32_t all_up_to, std::uint32_t step) {
  std::vector<std::uint32_t> divisors;
  for (std::uint32_t d = 2; d < 65536; d += d < all_up_to ? 1 : step) divisors.push_back(d);
  divisors.insert(divisors.end(), {65534, 65535, 65536, 65537, (1u << 20) - 1});
  return divisors;
}

template <class T>
class DividedBytes : public testing::Test {};
using Bytes8 = testing::Types<std::int8_t, std::uint8_t>;
TYPED_TEST_SUITE(DividedBytes, Bytes8);

TYPED_TEST(DividedBytes, EveryValueByEveryDivisor) {
  std::vector<std::uint32_t> divisors = many_divisors(65536, 1);
  divisors.insert(divisors.end(), {1u << 31, 0x80000001u, 0xffffffffu});
  for (const std::uint32_t divisor : divisors) {
    for (unsigned first = 0; first < 256; first += 16) {
      std::array<std::uint8_t, 16> values;
      for (unsigned i = 0; i < 16; ++i) values[i] = static_cast<std::uint8_t>(first + i);
      device::PackLanes<portable::Averaged<TypeParam>> lanes;
      lanes.widen(std::bit_cast<device::Pack>(values));
      lanes.divide(device::Divisor(divisor));
      const auto quotients = std::bit_cast<std::array<std::uint8_t, 16>>(lanes.narrow());
      for (unsigned i = 0; i < 16; ++i)
        ASSERT_EQ(quotients[i], portable::divide<TypeParam>(values[i], divisor)) << first + i << " / " << divisor;
    }
  }
}

template <class Codec>
class DividedFloats : public testing::Test {
 protected:
  using Storage = typename Codec::Storage;
  static float wide(unsigned bits) { return Codec::widen(static_cast<Storage>(bits)); }
  static void expect_quotients(const std::vector<float>& lanes, const std::vector<std::uint32_t>& divisors) {
    for (const std::uint32_t divisor : divisors) {
      const device::Divisor by(divisor);
      for (const float lane : lanes) {
        const float right = lane / static_cast<float>(divisor), found = by.quotient(lane);
        if (right != right && found != found) continue;
        ASSERT_EQ(std::bit_cast<std::uint32_t>(found), std::bit_cast<std::uint32_t>(right)) << lane << " / " << divisor;
      }
    }
  }
};
using SmallCodecs = testing::Types<portable::Float8e4m3Codec, portable::Float8e5m2Codec, portable::HalfCodec>;
TYPED_TEST_SUITE(DividedFloats, SmallCodecs);

// Sums of all pairs of 8 bits, without repetition; of 16 bits all values.
TYPED_TEST(DividedFloats, EverySumOfTwo) {
  constexpr bool kSmall = sizeof(typename TypeParam::Storage) == 1;
  std::set<std::uint32_t> sums;
  for (unsigned a = 0; a < (kSmall ? 256u : 65536u); ++a) {
    for (unsigned b = 0; b < (kSmall ? 256u : 1u); ++b)
      sums.insert(std::bit_cast<std::uint32_t>(this->wide(a) + (kSmall ? this->wide(b) : -0.0f)));
  }
  std::vector<float> lanes;
  for (const std::uint32_t sum : sums) lanes.push_back(std::bit_cast<float>(sum));
  this->expect_quotients(lanes, many_divisors(kSmall ? 512 : 64, kSmall ? 97 : 4099));
}

TYPED_TEST(DividedFloats, SumsOfMany) {
  std::mt19937 random(17);
  std::vector<float> lanes;
  for (int i = 0; i < 20000; ++i) {
    float sum = 0;
    for (unsigned k = random() % 64 + 1; k > 0; --k) {
      const float one = this->wide(random() & (sizeof(typename TypeParam::Storage) == 1 ? 0xffu : 0xffffu));
      if (one - one == 0) sum += one;
    }
    lanes.push_back(sum);
  }
  this->expect_quotients(lanes, many_divisors(256, 211));
}

}  // namespace
}  // namespace tutti
