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

/// Time that passes only when a test lets it: real time would also count what else the machine does.
struct SetClock {
  using duration = std::chrono::microseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<SetClock>;
  static constexpr bool is_steady = true;
  static time_point now() { return time; }
  static inline time_point time;
};

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
        SetClock::time += past_caches ? past : through;
      });
      EXPECT_EQ(next, kSlot);
      found += last ? 1 : 0;
    }
    return found;
  }

 private:
  TimedStores<SetClock> stores_;
};

TEST(SlotStores, WhatIsFasterIsFound) {
  Filler filler;
  filler.through = 3us;
  filler.past = 1us;
  EXPECT_EQ(filler.fill(200), 199) << "the second comparison decides";
  filler.through = 1us;  // the cores share a cache from now on
  filler.fill(100);
  EXPECT_EQ(filler.fill(200), 0);
}

/// After a pause the lines may lie in other caches, and the other way may be faster. The next fills find that out.
TEST(SlotStores, AFindingThatIsContradictedIsLookedAtAgainAtOnce) {
  Filler filler;
  filler.through = 3us;
  filler.past = 1us;
  filler.fill(96);  // the next one compares again
  for (int i = 0; i < 3; ++i) {
    filler.through = 1us;
    filler.past = 3us;
    filler.fill(2);
    EXPECT_EQ(filler.fill(30), 0);
    filler.through = 3us;
    filler.past = 1us;
    filler.fill(3);
    EXPECT_EQ(filler.fill(29), 29);
  }
}

TEST(SlotStores, EqualWaysGoThroughTheCaches) {
  Filler filler;
  filler.through = filler.past = 1us;
  EXPECT_EQ(filler.fill(200), 0);
}

TEST(SlotStores, OneComparisonThatIsDisturbedChangesNothing) {
  Filler filler;
  filler.through = 3us;
  filler.past = 1us;
  filler.fill(96);  // the next one compares again
  filler.past = 1000us;
  EXPECT_EQ(filler.fill(1), 1);
  filler.past = 1us;
  EXPECT_EQ(filler.fill(200), 200);
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
