// Covers support/device/settled.h.
#include "support/device/settled.h"

#include <gtest/gtest.h>

namespace tutti::test {
namespace {

/// Each case begins without the failures that the one before has planned, and what it left is swept up.
class Settler : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo&) override { settle_stand_in(); }
};
[[maybe_unused]] const bool settles = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new Settler);  // which owns it
  return true;
}();

TEST(Settled, AFailureThatDidNotComeIsForgotten) {
  stand_in().fail_next("allocate", "not now");
  settle_stand_in();
  void* memory = nullptr;
  EXPECT_EQ(tuttiMemAllocDevice(&memory, 10, 0), tuttiSuccess);
  EXPECT_EQ(tuttiMemFree(memory), tuttiSuccess);
}

TEST(Settled, AnotherStandInCanTakeItsPlace) {
  void* memory = nullptr;
  EXPECT_EQ(tuttiMemAllocDevice(&memory, 10, 0), tuttiSuccess);
  EXPECT_EQ(tuttiMemFree(memory), tuttiSuccess);
  settle_stand_in();
  end_stand_in();
  EXPECT_FALSE(is_stand_in_there());
  sweep_device(2);
  EXPECT_EQ(stand_in().allocations(), 0u);
}

}  // namespace
}  // namespace tutti::test
