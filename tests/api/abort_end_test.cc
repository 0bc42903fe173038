// After an abort nothing of the communicator stays, however late the calls end that it met.
// Covers comm/api/handle.cc, comm/api/api_communicator.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "comm/membership/hub.h"
#include "support/await.h"
#include "support/held_operation.h"
#include "support/ranks.h"
#include "support/stuck_stream.h"

namespace tutti::test {
namespace {

/// The service thread ends with the last communicator of its process.
void expect_nothing_is_left() {
  EXPECT_TRUE(wait_for_no_hub(std::chrono::seconds(20))) << "the service thread still runs";
}

TEST(AloneAbort, LeavesNothingOfACallThatWasStuckInTheCallersCode) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  HeldOperation held;
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    tuttiRedOp_t op = tuttiSum;
    ASSERT_EQ(tuttiRedOpCreateCustom(&op, HeldOperation::run, 1, &held, comm), tuttiSuccess);
    int value = 1;
    if (rank == 1) {
      (void)tuttiReduce(&value, &value, 1, tuttiInt32, op, 0, comm, nullptr);
      (void)tuttiCommDestroy(comm);
      return;
    }
    std::thread aborter([&] {
      await([&] { return held.begun.load(); }, "the operation");
      EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
      held.let_go = true;
    });
    (void)tuttiReduce(&value, &value, 1, tuttiInt32, op, 0, comm, nullptr);  // it may have come to its end
    aborter.join();
  });
  expect_nothing_is_left();
}

TEST(AloneAbort, LeavesNothingOfAStreamThatWasHeldUp) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    if (rank == 1) {
      (void)tuttiCommDestroy(comm);
      return;
    }
    tuttiStream_t calls = nullptr;
    ASSERT_EQ(tuttiStreamCreate(&calls), tuttiSuccess);
    StuckStream stuck;
    float value = 1;
    (void)tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, comm, calls);
    EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
    stuck.go_on();
    EXPECT_NE(tuttiStreamSynchronize(calls), tuttiSuccess);
    EXPECT_EQ(tuttiStreamDestroy(calls), tuttiSuccess);
  });
  expect_nothing_is_left();
}

}  // namespace
}  // namespace tutti::test
