// Streams: order, queries, callbacks, errors; and communicators that do not block one another.
// Covers comm/queue/stream.cc, comm/queue/operation.cc, comm/queue/progress_thread.cc, comm/api/api_streams.cc,
// comm/call_driver.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "support/ranks.h"

namespace tutti::test {
namespace {

TEST(Stream, OperationsRunInOrderAndOverlapWithTheCaller) {
  constexpr int kRanks = 3;
  constexpr std::size_t kCount = 50'021;
  run_threads(kRanks, [](tuttiComm_t comm, int rank) {
    tuttiStream_t stream;
    ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    std::vector<double> a(kCount, rank + 1.0), b(kCount), c(kCount);
    for (int round = 0; round < 20; ++round) {
      EXPECT_EQ(tuttiAllReduce(a.data(), b.data(), kCount, tuttiFloat64, tuttiSum, comm, stream), tuttiSuccess);
      EXPECT_EQ(tuttiBroadcast(b.data(), c.data(), kCount, tuttiFloat64, round % kRanks, comm, stream), tuttiSuccess);
    }
    EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess);
    EXPECT_EQ(tuttiStreamQuery(stream), tuttiSuccess);
    EXPECT_EQ(c, std::vector<double>(kCount, 6.0));
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

TEST(Stream, ABlockingCallWaitsForEarlierOperations) {
  run_threads(2, [](tuttiComm_t comm, int rank) {
    tuttiStream_t streams[2];
    for (tuttiStream_t& stream : streams) ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    int value = rank + 1;  // 1 + 2 = 3; 3 * 3 = 9; 9 + 9 = 18
    EXPECT_EQ(tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiSum, comm, streams[1]), tuttiSuccess);
    EXPECT_EQ(tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiProd, comm, streams[0]), tuttiSuccess);
    EXPECT_EQ(tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiSum, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(value, 18);
    for (const tuttiStream_t stream : streams) EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

// The caller sleeps until the stream's operation, whose peer is late, has had its turn.
TEST(Stream, ABlockingCallAndDestroyWaitForALatePeer) {
  run_threads(2, [](tuttiComm_t comm, int rank) {
    tuttiStream_t stream;
    ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    int value = 1;
    EXPECT_EQ(tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiSum, comm, stream), tuttiSuccess);
    EXPECT_EQ(tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiSum, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(value, 4);
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_EQ(tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiSum, comm, stream), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
    EXPECT_EQ(value, 8);
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
  });
}

// In a process of its own: an abort beside a call that takes longer than 50 ms to notice it keeps its communicator, and
// with it the hub, until the exit.
TEST(AloneStream, ABlockingCallBehindAStreamIsAborted) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  std::atomic<bool> ended{false};
  std::atomic<pid_t> waiting{0};
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    if (rank == 1) {  // never calls
      await([&] { return ended.load(); }, "the abort");
      EXPECT_EQ(tuttiCommDestroy(comm), tuttiRemoteError);
      return;
    }
    tuttiStream_t stream;
    ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    EXPECT_EQ(tuttiBarrier(comm, stream), tuttiSuccess);
    std::thread caller([&] {
      waiting = ::gettid();
      EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiAborted);
    });
    await([&] { return waiting != 0 && is_asleep(waiting); }, "the caller's sleep in the call");
    EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
    caller.join();
    ended = true;
    EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiAborted);
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
  });
}

TEST(Stream, ACallbackCannotWaitForItsStream) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  tuttiStream_t stream;
  ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
  struct Seen {
    tuttiStream_t stream;
    std::atomic<int> result{-1};
  } seen{stream, {}};
  seen.result = -1;
  const auto destroy = [](tuttiResult_t, void* user) {
    static_cast<Seen*>(user)->result = tuttiStreamDestroy(static_cast<Seen*>(user)->stream);
  };
  EXPECT_EQ(tuttiStreamAddCallback(stream, destroy, &seen), tuttiSuccess);
  EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess);
  EXPECT_EQ(seen.result, tuttiInvalidUsage);
  EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
}

TEST(Stream, OneThreadDrivesSeveralRanks) {
  constexpr int kRanks = 5;
  tuttiComm_t comms[kRanks];
  tuttiStream_t streams[kRanks];
  int values[kRanks];
  ASSERT_EQ(tuttiCommInitAll(comms, kRanks, nullptr), tuttiSuccess);
  for (int i = 0; i < kRanks; ++i) {
    values[i] = 1 << i;
    ASSERT_EQ(tuttiStreamCreate(&streams[i]), tuttiSuccess);
    EXPECT_EQ(tuttiAllReduce(&values[i], &values[i], 1, tuttiInt32, tuttiSum, comms[i], streams[i]), tuttiSuccess);
  }
  for (int i = 0; i < kRanks; ++i) {
    EXPECT_EQ(tuttiStreamSynchronize(streams[i]), tuttiSuccess);
    EXPECT_EQ(values[i], 31);
    EXPECT_EQ(tuttiStreamDestroy(streams[i]), tuttiSuccess);
  }
  for (const tuttiComm_t comm : comms) EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

TEST(Stream, GroupedCallsGoToTheirStreams) {
  tuttiComm_t comms[2];
  tuttiStream_t stream;
  ASSERT_EQ(tuttiCommInitAll(comms, 2, nullptr), tuttiSuccess);
  ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
  int values[2] = {3, 4};
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  // Two streams' worth of one rank each would do as well; here rank 0 is on a stream and rank 1 is done at the end.
  EXPECT_EQ(tuttiAllReduce(&values[0], &values[0], 1, tuttiInt32, tuttiSum, comms[0], stream), tuttiSuccess);
  EXPECT_EQ(tuttiAllReduce(&values[1], &values[1], 1, tuttiInt32, tuttiSum, comms[1], nullptr), tuttiSuccess);
  ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess);
  EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess);
  EXPECT_EQ(values[0], 7);
  EXPECT_EQ(values[1], 7);
  EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
  for (const tuttiComm_t comm : comms) EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

TEST(Stream, CallbacksComeOnceAfterTheWorkAlsoOnError) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  tuttiComm_t comm;
  tuttiStream_t stream;
  ASSERT_EQ(tuttiCommInitAll(&comm, 1, nullptr), tuttiSuccess);
  ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
  struct Seen {
    std::atomic<int> calls{0};
    std::atomic<int> result{-1};
  } seen;
  const auto note = [](tuttiResult_t result, void* user) {
    static_cast<Seen*>(user)->calls++;
    static_cast<Seen*>(user)->result = result;
  };
  int value = 1;
  EXPECT_EQ(tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiSum, comm, stream), tuttiSuccess);
  EXPECT_EQ(tuttiStreamAddCallback(stream, note, &seen), tuttiSuccess);
  EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess);
  EXPECT_EQ(seen.calls, 1);
  EXPECT_EQ(seen.result, tuttiSuccess);
  EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

TEST(Stream, AFailedCommunicatorDoesNotStopAnother) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  run_threads(2, [](tuttiComm_t comm, int rank) {
    tuttiComm_t other;
    ASSERT_EQ(tuttiCommSplit(comm, 0, 0, &other, nullptr), tuttiSuccess) << tuttiGetLastError(comm);
    tuttiStream_t stream;
    ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    EXPECT_EQ(tuttiCommSetTimeout(comm, kFarSeconds), tuttiSuccess);
    int value = 5;
    std::vector<float> data(2);
    // A mismatch on `comm`, then a right call on `other`, on the same stream.
    const std::size_t count = rank == 0 ? 1 : 2;
    EXPECT_EQ(tuttiAllReduce(data.data(), data.data(), count, tuttiFloat32, tuttiSum, comm, stream), tuttiSuccess);
    EXPECT_EQ(tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiSum, other, stream), tuttiSuccess);
    EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiMismatch);
    EXPECT_EQ(value, 10);
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(other), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiMismatch);
  });
}

}  // namespace
}  // namespace tutti::test
