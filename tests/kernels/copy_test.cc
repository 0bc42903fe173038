// Covers kernels/copy.cc.
// Copies of every length and alignment, to one and two destinations, and nothing written outside.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <random>

#include "kernels/copy.h"
#include "kernels/kernels.h"
#include "kernels/simd_sets.h"
#include "support/sanitized.h"

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

/// Memory that begins with a page.
class Pages {
 public:
  Pages() : begin_(static_cast<unsigned char*>(std::aligned_alloc(kPage, kSize))) {
    std::fill_n(begin_, kSize, kUntouched);
  }
  ~Pages() { std::free(begin_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  unsigned char* at(std::size_t place) const { return begin_ + place; }

  static constexpr std::size_t kPage = 4096, kSize = 16 * kPage;

 private:
  unsigned char* const begin_;
};

/// Also tests the vector loop, which copy_by_string() takes on some processors only.
TEST(SlowPairs, OfAddressesAreCopiedRight) {
  constexpr std::size_t kBytes = 5000;
  const Pages from, to;
  for (std::size_t i = 0; i < kBytes; ++i) from.at(Pages::kPage)[i] = static_cast<unsigned char>(i * 7 + i / 256);
  for (const std::string& set : simd_sets()) {
    const SimdScope scope(set);
    for (std::size_t after = 0; after < 66; ++after) {
      const auto address = [](unsigned char* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); };
      unsigned char* const place = to.at(after);
      EXPECT_EQ(is_slow_for_strings(address(place), address(from.at(Pages::kPage))), after > 0 && after < 64) << after;
      for (const auto copy : {copy_by_string, copy_by_vector}) {
        std::fill_n(to.at(0), kBytes + 128, kUntouched);
        copy(place, from.at(Pages::kPage), kBytes);
        EXPECT_TRUE(std::equal(place, place + kBytes, from.at(Pages::kPage))) << after << " " << set;
        EXPECT_EQ(std::count(to.at(0), place, kUntouched), static_cast<std::ptrdiff_t>(after)) << set;
        EXPECT_EQ(place[kBytes], kUntouched) << after << " " << set;
      }
    }
  }
}

/// A large block of malloc begins 16 bytes after a page does, a slot at one.
TEST(TimedCopy, TakesAboutAsLongForAnyPairOfAddresses) {
  if (test::kSanitized) GTEST_SKIP() << "with a sanitizer memcpy copies, which is the C library's";
  constexpr std::size_t kBytes = 16 * 1024;
  const Pages from, to;
  std::array<double, 3> seconds{1, 1, 1};
  constexpr std::array<std::size_t, 3> kAfter{0, 16, 1};
  for (int round = 0; round < 50; ++round) {
    for (std::size_t i = 0; i < kAfter.size(); ++i) {
      const auto begin = std::chrono::steady_clock::now();
      for (int copy = 0; copy < 10; ++copy) copy_bytes(to.at(kAfter[i]), from.at(0), Bytes{kBytes}, false);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      seconds[i] = std::min(seconds[i], took.count());
    }
  }
  // It was 15 times as long on Zen 3. On another processor a failure means that it has such pairs, too.
  for (std::size_t i = 1; i < kAfter.size(); ++i) EXPECT_LT(seconds[i], 5 * seconds[0]) << kAfter[i];
}

INSTANTIATE_TEST_SUITE_P(Caches, CopyTest, testing::Bool(),
                         [](const auto& info) { return std::string(info.param ? "Past" : "Through"); });

}  // namespace
}  // namespace tutti
