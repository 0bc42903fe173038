// Groups that wait for calls on streams, where a callback holds up the thread that runs these: they end, too.
// Covers comm/stream_wait.cc, comm/progress_state.cc, comm/queue/operation.cc, comm/queue/call_group.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <atomic>
#include <thread>

#include "support/await.h"
#include "support/ranks.h"
#include "support/stuck_stream.h"

namespace tutti::test {
namespace {

tuttiResult_t sum(float* value, tuttiComm_t comm, tuttiStream_t stream) {
  return tuttiAllReduce(value, value, 1, tuttiFloat32, tuttiSum, comm, stream);
}

// Calls on `own` and on the other stream, then one that blocks; the callback runs on the thread that would run the
// first two.
TEST(AloneHeldUp, AGroupInACallbackThatWaitsForCallsOnStreamsIsRefused) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  struct State {
    tuttiComm_t comm = nullptr;
    tuttiStream_t other = nullptr;
    std::atomic<bool> held{false}, go{false};
    std::atomic<int> behind{-1}, together{-1};
    float value = 1;
  } state;
  tuttiStream_t own = nullptr;
  ASSERT_EQ(tuttiCommInitAll(&state.comm, 1, nullptr), tuttiSuccess);
  ASSERT_EQ(tuttiStreamCreate(&own), tuttiSuccess);
  ASSERT_EQ(tuttiStreamCreate(&state.other), tuttiSuccess);
  const auto group = [](tuttiResult_t, void* user) {
    auto* const known = static_cast<State*>(user);
    (void)tuttiGroupStart();
    (void)sum(&known->value, known->comm, known->other);
    (void)sum(&known->value, known->comm, nullptr);
    known->together = tuttiGroupEnd();
    known->held = true;
    await([known] { return known->go.load(); }, "a queued call");
    (void)tuttiGroupStart();
    (void)sum(&known->value, known->comm, nullptr);
    known->behind = tuttiGroupEnd();
  };
  EXPECT_EQ(tuttiStreamAddCallback(own, group, &state), tuttiSuccess);
  await([&] { return state.held.load(); }, "the callback");
  EXPECT_EQ(state.together, tuttiInvalidUsage);
  EXPECT_EQ(sum(&state.value, state.comm, state.other), tuttiSuccess);
  state.go = true;
  EXPECT_EQ(tuttiStreamSynchronize(own), tuttiSuccess);
  EXPECT_EQ(state.behind, tuttiInvalidUsage);
  EXPECT_EQ(tuttiStreamSynchronize(state.other), tuttiSuccess);
  EXPECT_EQ(state.value, 1) << "what was refused has not run";
  for (tuttiStream_t stream : {own, state.other}) EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
  EXPECT_EQ(tuttiCommDestroy(state.comm), tuttiSuccess);
}

/// Rank 0 of two waits in a group for a call on a stream that cannot run; `end` is what ends that.
template <class End>
void wait_in_a_group(tuttiResult_t expected, double timeout, const End& end) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    float values[3] = {1, 1, 1};
    if (rank == 1) {
      EXPECT_EQ(tuttiCommSetTimeout(comm, kFarSeconds), tuttiSuccess);
      EXPECT_NE(sum(values, comm, nullptr), tuttiSuccess);
      (void)tuttiCommDestroy(comm);
      return;
    }
    EXPECT_EQ(tuttiCommSetTimeout(comm, timeout), tuttiSuccess);
    tuttiStream_t stream = nullptr;
    ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    StuckStream stuck;
    EXPECT_EQ(sum(values, comm, stream), tuttiSuccess);
    std::thread ending([&] { end(comm); });
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    for (int i = 0; i < 3; ++i) {  // which are not packed with each other
      EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
      EXPECT_EQ(sum(values + 1, comm, nullptr), tuttiSuccess);
    }
    EXPECT_EQ(sum(values + 2, comm, stream), tuttiSuccess);
    EXPECT_EQ(tuttiGroupEnd(), expected);
    ending.join();
    stuck.go_on();
    EXPECT_NE(tuttiStreamSynchronize(stream), tuttiSuccess) << "what is behind the call that was given up ends, too";
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    (void)tuttiCommDestroy(comm);
  });
}

TEST(AloneHeldUp, AGroupBehindAStuckCallbackIsATimeoutForAll) {
  wait_in_a_group(tuttiTimeout, 1, [](tuttiComm_t) {});
}

TEST(AloneHeldUp, AnAbortEndsAGroupBehindAStuckCallback) {
  wait_in_a_group(tuttiAborted, kFarSeconds, [](tuttiComm_t comm) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the group waits, or the case shows less
    EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
  });
}

}  // namespace
}  // namespace tutti::test
