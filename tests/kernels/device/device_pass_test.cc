// Covers kernels/device/device_pass.h.
// Passes over a buffer, compiled for the host and run by groups of emulated and of real threads, against the
// processor's kernels: the same bits for every size and alignment.
#include "kernels/device/device_pass.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "kernels/all_types.h"
#include "kernels/device/device_table.h"
#include "kernels/guarded.h"
#include "kernels/kernels.h"
#include "kernels/oracle.h"

namespace tutti {
namespace {

using oracle::Row;
using Kind = DevicePass::Kind;

/// Runs the pass from `from`, moved by `source` bytes, to a place `destination` bytes beyond an aligned one. Returns
/// what is wrong, or nothing.
std::string difference(DevicePass pass, const Row& from, const Row& expected, std::size_t source,
                       std::size_t destination, unsigned threads, bool at_once) {
  Row moved(source + from.size() + (from.empty() ? 1 : 0));  // to the byte, for the address sanitizer
  std::copy(from.begin(), from.end(), moved.begin() + static_cast<std::ptrdiff_t>(source));
  Guarded to(destination, expected.size());
  pass.source = moved.data() + source;
  pass.destination = to.data();
  run_group(threads, at_once, [&](unsigned thread) { device::run_pass(thread, threads, pass); });
  const auto wrong = std::mismatch(expected.begin(), expected.end(), to.data()).first;
  if (wrong != expected.end()) return "differs at byte " + std::to_string(wrong - expected.begin());
  return to.guards_untouched() ? "" : "written outside";
}

/// Whole elements, and any byte.
std::size_t place(std::mt19937& random, std::size_t element) {
  return random() % 4 == 0 ? random() % 16 : random() % (16 / element) * element;
}

void expect_same(std::mt19937& random, const DevicePass& pass, const Row& from, std::size_t from_element,
                 const Row& expected, std::size_t to_element) {
  for (const unsigned threads : {1u, 3u, 32u}) {
    const std::size_t source = place(random, from_element), destination = place(random, to_element);
    ASSERT_EQ(difference(pass, from, expected, source, destination, threads, random() % 8 == 0), "")
        << pass.count << " elements from " << source << " to " << destination << ", " << threads << " threads";
  }
}

class DevicePasses : public testing::TestWithParam<DataType> {
 protected:
  DataType type() const { return GetParam(); }
  std::size_t size() const { return size_of(GetParam()).value; }
  std::mt19937 random_{static_cast<unsigned>(GetParam()) + 1};
};

constexpr std::size_t kCounts[] = {0, 1, 3, 4, 5, 15, 16, 17, 47, 48, 97, 255, 257, 1031};

TEST_P(DevicePasses, ScaleAtEveryPlace) {
  for (const std::size_t count : kCounts) {
    const std::vector<Row> rows = oracle::random_rows(type(), 2, std::max<std::size_t>(count, 1), 21);
    for (int sample = 0; sample < 16; ++sample) {
      DevicePass pass{Kind::kScale, type(), nullptr, nullptr, count, nullptr, 0};
      std::memcpy(&pass.value, rows[1].data(), size());
      const Row from(rows[0].begin(), rows[0].begin() + static_cast<std::ptrdiff_t>(count * size()));
      Row expected(from.size());
      scale(type(), expected.data(), from.data(), count, &pass.value);
      expect_same(random_, pass, from, size(), expected, size());
      if (HasFatalFailure()) return;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Types, DevicePasses, testing::ValuesIn(kAllTypes), name_of_type);

class DeviceConversions : public DevicePasses {};

TEST_P(DeviceConversions, RoundAndWidenAtEveryPlace) {
  for (const std::size_t count : kCounts) {
    const Row floats = oracle::random_rows(DataType::kFloat32, 1, std::max<std::size_t>(count, 1), 22)[0];
    const Row small = oracle::random_rows(type(), 1, std::max<std::size_t>(count, 1), 23)[0];
    const Row wide_from(floats.begin(), floats.begin() + static_cast<std::ptrdiff_t>(count * sizeof(float)));
    const Row small_from(small.begin(), small.begin() + static_cast<std::ptrdiff_t>(count * size()));
    Row narrowed(count * size()), widened(count * sizeof(float));
    narrow_floats(type(), narrowed.data(), reinterpret_cast<const float*>(wide_from.data()), count);
    widen_floats(type(), reinterpret_cast<float*>(widened.data()), small_from.data(), count, false);
    for (int sample = 0; sample < 16; ++sample) {
      const DevicePass narrow{Kind::kNarrow, type(), nullptr, nullptr, count, nullptr, 0};
      expect_same(random_, narrow, wide_from, sizeof(float), narrowed, size());
      const DevicePass widen{Kind::kWiden, type(), nullptr, nullptr, count, nullptr, 0};
      expect_same(random_, widen, small_from, size(), widened, sizeof(float));
      if (HasFatalFailure()) return;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(WireTypes, DeviceConversions,
                         testing::Values(DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8e4m3,
                                         DataType::kFloat8e5m2),
                         name_of_type);

// Sizes with several units at a time, and with some that are left.
TEST(DevicePassSplit, TakesUnitsWhereOneBufferIsAligned) {
  alignas(16) static unsigned char small[256], wide[1024];
  const auto split = [](std::size_t at, std::size_t other) {
    return device::PassSplit::of(100, 4, small + at, 2, wide + other, 4);
  };
  EXPECT_EQ(split(0, 0).units, 25u);
  EXPECT_EQ(split(0, 4).units, 23u);
  EXPECT_EQ(split(2, 4).head, 3u);
  EXPECT_EQ(split(2, 4).units, 24u);
  EXPECT_EQ(split(1, 0).units, 0u);
}

}  // namespace
}  // namespace tutti
