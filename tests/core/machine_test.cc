// Covers core/machine.h.
#include "core/machine.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(Machine, OfRanksWithAHostEachHasLargerMessages) {
  EXPECT_TRUE(have_a_host_each({0, 1, 2}));
  EXPECT_TRUE(have_a_host_each({0}));
  EXPECT_FALSE(have_a_host_each({0, 0, 1})) << "the third has a host of its own, but not all have";
  EXPECT_FALSE(have_a_host_each({0, 1, 0}));
  EXPECT_FALSE(have_a_host_each({})) << "one host";
  constexpr Bytes kSlot{8192};
  EXPECT_EQ(largest_message(kSlot, false), kSlot);
  EXPECT_EQ(largest_message(kSlot, true), Bytes{16384});
}

}  // namespace
}  // namespace tutti
