// Covers core/crc32c.cc.
#include "core/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string_view>
#include <vector>

namespace tutti {
namespace {

using Buffer = std::vector<std::byte>;

/// One bit at a time, as the polynomial says.
std::uint32_t bitwise(std::span<const std::byte> bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const std::byte b : bytes) {
    crc ^= std::to_integer<std::uint32_t>(b);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82f63b78 : crc >> 1;
  }
  return ~crc;
}

Buffer noise(std::size_t size) {
  std::mt19937 random(7);
  Buffer bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

class Crc32c : public ::testing::TestWithParam<Crc32cMethod> {
 protected:
  void SetUp() override {
    if (!GetParam().usable()) GTEST_SKIP() << "this processor lacks " << GetParam().name;
  }
  static std::uint32_t compute(std::uint32_t seed, std::span<const std::byte> bytes) {
    return GetParam().compute(seed, bytes);
  }
};

TEST_P(Crc32c, KnownVectors) {  // RFC 3720, appendix B.4
  Buffer bytes(32);
  EXPECT_EQ(compute(0, bytes), 0x8a9136aau);
  bytes.assign(32, std::byte{0xff});
  EXPECT_EQ(compute(0, bytes), 0x62a8ab43u);
  for (std::size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::byte>(i);
  EXPECT_EQ(compute(0, bytes), 0x46dd794eu);
  for (std::size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::byte>(31 - i);
  EXPECT_EQ(compute(0, bytes), 0x113fdb5cu);
  EXPECT_EQ(compute(0, std::as_bytes(std::span(std::string_view("123456789")))), 0xe3069283u);
  EXPECT_EQ(compute(0, {}), 0u);
}

TEST_P(Crc32c, AllSizesAndAlignments) {
  const Buffer bytes = noise(1024);
  for (std::size_t offset = 0; offset < 16; ++offset)
    for (std::size_t size = 0; size + offset <= bytes.size(); size += size < 64 ? 1 : 37) {
      const auto part = std::span(bytes).subspan(offset, size);
      ASSERT_EQ(compute(0, part), bitwise(part)) << size << " bytes at " << offset;
    }
}

TEST_P(Crc32c, LongStretches) {
  const Buffer bytes = noise(300'000);
  for (const std::size_t size : {767u, 768u, 769u, 12287u, 12288u, 12289u, 13056u, 65536u, 262144u, 299'999u}) {
    const auto part = std::span(bytes).subspan(1, size);
    EXPECT_EQ(compute(0, part), bitwise(part)) << size << " bytes";
  }
}

TEST_P(Crc32c, AllSplitsGiveTheSame) {
  const Buffer bytes = noise(1600);
  const std::uint32_t whole = bitwise(bytes);
  for (std::size_t split = 0; split <= bytes.size(); ++split)
    ASSERT_EQ(compute(compute(0, std::span(bytes).first(split)), std::span(bytes).subspan(split)), whole) << split;
}

TEST_P(Crc32c, EveryChangedBitIsNoticed) {
  Buffer bytes = noise(900);
  const std::uint32_t whole = compute(0, bytes);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_NE(compute(0, bytes), whole) << "bit " << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, Crc32c, ::testing::ValuesIn(crc32c_methods().begin(), crc32c_methods().end()),
                         [](const auto& item) {
                           return item.param.name == std::string_view("sse4.2") ? "sse42" : item.param.name;
                         });

TEST(Crc32cChoice, TakesTheFirstThatIsUsable) {
  const Buffer bytes = noise(5000);
  EXPECT_EQ(crc32c(0, bytes), bitwise(bytes));
  EXPECT_EQ(crc32c(crc32c(0, std::span(bytes).first(77)), std::span(bytes).subspan(77)), bitwise(bytes));
}

}  // namespace
}  // namespace tutti
