// Covers kernels/slot_stores.h, kernels/slot.cc.
// Slots are filled completely and in order, past the caches where that is found faster, and the finding can be undone.
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/simd_sets.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;
constexpr std::size_t kSlot = 4 * SlotStores::kPart;

/// Fills slots whose parts take as long as is said here.
class Filler {
 public:
  std::chrono::microseconds through{0};
  std::chrono::microseconds past{0};

  /// Returns how many of `times` slots ended past the caches.
  int fill(int times) {
    int found = 0;
    for (int i = 0; i < times; ++i) {
      std::size_t next = 0;
      bool last = false;
      stores_.fill(kSlot, [&](std::size_t at, std::size_t bytes, bool past_caches) {
        EXPECT_EQ(at, next);
        next = at + bytes;
        last = past_caches;
        if (bytes == SlotStores::kPart) pass(past_caches ? past : through);
      });
      EXPECT_EQ(next, kSlot);
      found += last ? 1 : 0;
    }
    return found;
  }

 private:
  // Not a sleep, which may take longer by as much as the difference that is to be found.
  static void pass(std::chrono::microseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) {
    }
  }
  SlotStores stores_;
};

TEST(SlotStores, WhatIsFasterIsFound) {
  Filler filler;
  filler.through = 3ms;
  filler.past = 1ms;
  EXPECT_GT(filler.fill(200), 100);
  filler.through = 1ms;  // the cores share a cache from now on
  filler.fill(200);
  EXPECT_LT(filler.fill(200), 100);
}

TEST(SlotStores, EqualWaysGoThroughTheCaches) {
  Filler filler;
  filler.through = filler.past = 1ms;
  EXPECT_LT(filler.fill(200), 100);
}

TEST(SlotStores, SmallSlotsAreFilledAtOnce) {
  SlotStores stores;
  int calls = 0;
  for (int i = 0; i < 100; ++i) {
    stores.fill(SlotStores::kFrom - 1, [&](std::size_t at, std::size_t bytes, bool past_caches) {
      EXPECT_EQ(at, 0u);
      EXPECT_EQ(bytes, SlotStores::kFrom - 1);
      EXPECT_FALSE(past_caches);
      ++calls;
    });
  }
  EXPECT_EQ(calls, 100);
}

/// Which way is taken is not known here, so slots are filled until both have been compared in either order.
TEST(SlotStores, CopiesAndReductionsAreComplete) {
  for (const std::string& set : simd_sets()) {
    const SimdScope scope(set);
    SlotStores copies, sums;
    for (std::size_t count : {1u, 100u, 2047u, 2048u, 2049u, 5000u, 100'001u}) {
      std::vector<std::uint32_t> source(count), twice(count);
      std::iota(source.begin(), source.end(), 1u);
      for (std::size_t i = 0; i < count; ++i) twice[i] = 2 * source[i];
      const void* const sources[] = {source.data(), source.data()};
      const Bytes bytes{4 * count};
      for (int i = 0; i < 70; ++i) {
        std::vector<std::uint32_t> slot(count), second(count);
        copy_into_slot(slot.data(), i % 2 == 0 ? nullptr : second.data(), source.data(), bytes, i % 4 == 1, copies);
        ASSERT_TRUE(slot == source && (i % 2 == 0 || second == source)) << count << " " << set;
        const ReduceArgs args{sources, 2, slot.data(), i % 2 == 0 ? nullptr : second.data(), count};
        reduce_into_slot(reduce_kernel(DataType::kUint32, RedOp::kSum), Bytes{4}, args, sums);
        ASSERT_TRUE(slot == twice && (i % 2 == 0 || second == twice)) << count << " " << set;
      }
    }
  }
}

}  // namespace
}  // namespace tutti
