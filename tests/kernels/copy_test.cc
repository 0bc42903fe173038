// Covers kernels/copy.cc.
// Copies of every length and alignment, to one and two destinations, and nothing written outside.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "kernels/kernels.h"
#include "kernels/simd_sets.h"

namespace tutti {
namespace {

using Buffer = std::vector<unsigned char>;
constexpr unsigned char kUntouched = 0xa5;

/// Copies `bytes` bytes between given offsets; the text of what went wrong, or empty.
std::string copy_error(std::size_t bytes, std::size_t from, std::size_t to, std::size_t to_second, bool twice,
                       bool stream) {
  Buffer source(from + bytes + 1);
  std::iota(source.begin(), source.end(), static_cast<unsigned char>(bytes + 1));
  source.resize(from + bytes);
  Buffer destination(to + bytes + 64, kUntouched);
  Buffer second(to_second + bytes + 64, kUntouched);
  Buffer expected = destination;
  Buffer expected_second = second;
  std::copy_n(source.data() + from, bytes, expected.data() + to);
  if (twice) {
    std::copy_n(source.data() + from, bytes, expected_second.data() + to_second);
    copy_bytes_twice(destination.data() + to, second.data() + to_second, source.data() + from, Bytes{bytes}, stream);
  } else {
    copy_bytes(destination.data() + to, source.data() + from, Bytes{bytes}, stream);
  }
  if (destination != expected) return "destination differs";
  return second == expected_second ? "" : "second differs";
}

class CopyTest : public testing::TestWithParam<bool> {};  // past the caches or not

TEST_P(CopyTest, EveryLength) {
  for (const std::string& set : simd_sets()) {
    const SimdScope scope(set);
    for (std::size_t bytes = 0; bytes <= 1100; ++bytes) {
      for (bool twice : {false, true}) {
        ASSERT_EQ(copy_error(bytes, bytes % 7, bytes % 5, bytes % 3, twice, GetParam()), "") << bytes << " " << set;
      }
    }
  }
}

TEST_P(CopyTest, EveryAlignmentAndLargeSizes) {
  std::mt19937 random(1);
  for (const std::string& set : simd_sets()) {
    const SimdScope scope(set);
    for (std::size_t bytes : {4096u, 40000u, 300001u, 1500000u}) {
      for (int sample = 0; sample < (bytes < 100000 ? 64 : 8); ++sample) {
        const std::size_t from = random() % 64;
        const std::size_t to = sample % 64;
        const std::size_t to_second = random() % 64;
        ASSERT_EQ(copy_error(bytes - sample, from, to, to_second, sample % 2 == 0, GetParam()), "")
            << bytes - sample << " bytes from " << from << " to " << to << " and " << to_second << " " << set;
      }
    }
  }
}

TEST_P(CopyTest, OntoItself) {
  for (const std::string& set : simd_sets()) {
    const SimdScope scope(set);
    for (std::size_t bytes : {1u, 100u, 1000u, 100000u, 1000000u}) {
      Buffer buffer(bytes);
      std::iota(buffer.begin(), buffer.end(), static_cast<unsigned char>(3));
      const Buffer before = buffer;
      Buffer second(bytes);
      copy_bytes(buffer.data(), buffer.data(), Bytes{bytes}, GetParam());
      EXPECT_TRUE(buffer == before) << bytes << " " << set;
      copy_bytes_twice(buffer.data(), second.data(), buffer.data(), Bytes{bytes}, GetParam());
      EXPECT_TRUE(buffer == before && second == before) << bytes << " " << set;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Caches, CopyTest, testing::Bool(),
                         [](const auto& info) { return std::string(info.param ? "Past" : "Through"); });

}  // namespace
}  // namespace tutti
