// Covers comm/failure/failure_state.h.
// How a communicator has failed: the first failure counts.
#include "comm/failure/failure_state.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(FailureStates, TheFirstCounts) {
  FailureState state;
  EXPECT_FALSE(state.failed());
  EXPECT_TRUE(state.status().ok());
  Status first = fail(Code::kTimeout, "late");
  EXPECT_TRUE(state.set(&first));
  Status second = fail(Code::kAborted, "aborted");
  EXPECT_FALSE(state.set(&second));
  EXPECT_EQ(second.code(), Code::kTimeout);
  EXPECT_EQ(second.text(), "late");
  EXPECT_TRUE(state.failed());
  EXPECT_EQ(state.status().text(), "late");
}

}  // namespace
}  // namespace tutti
