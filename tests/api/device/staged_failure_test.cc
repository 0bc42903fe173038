// Calls through host memory that fail, or are refused: nothing waits for ever, the caller's CUDA stream goes on, and no
// memory goes that a stream may still look at.
// Covers executor/device/staged_executor.cc, executor/polled_run.cc, device/stream_gate.cc, comm/device_calls.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/device/staged_fixture.h"

namespace tutti::test {
namespace {

TEST_F(StagedStreams, GoOnWhenARankDoesNotComeAndItIsNamed) {
  std::atomic<bool> over{false};
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    StandInDriver::use(rank);
    EXPECT_EQ(tuttiCommSetTimeout(comm, 0.3), tuttiSuccess);
    Values data(1000, true, rank);
    if (rank == 0) {
      std::atomic<bool> behind{false};
      CallerStream stream(rank);
      for (int i = 0; i < 3; ++i)
        EXPECT_EQ(tuttiAllReduce(data.data(), data.data(), 1000, tuttiFloat32, tuttiSum, comm, stream.get()),
                  tuttiSuccess);
      stream.put([&behind] { behind.store(true); });
      EXPECT_EQ(tuttiStreamSynchronize(stream.get()), tuttiTimeout);
      EXPECT_NE(std::string(tuttiGetLastError(comm)).find("rank 1 has not called"), std::string::npos);
      stream.drain();
      EXPECT_TRUE(behind.load());
      over.store(true);
    }
    await([&] { return over.load(); }, "the end of the test");
    EXPECT_NE(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

TEST_F(StagedStreams, AFailedCopyIsADeviceErrorThatAllHearOf) {
  run_threads(2, [](tuttiComm_t comm, int rank) {
    StandInDriver::use(rank);
    Values data(1000, true, rank);
    if (rank == 1) stand_in().fail_next("copy", "an illegal memory access was encountered");
    const tuttiResult_t result = tuttiAllReduce(data.data(), data.data(), 1000, tuttiFloat32, tuttiSum, comm, nullptr);
    EXPECT_TRUE(result == tuttiUnhandledCudaError || result == tuttiRemoteError) << result;
    EXPECT_NE(std::string(tuttiGetLastError(comm)).find("illegal memory access"), std::string::npos);
    EXPECT_NE(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

// In processes of their own: an abort that takes longer than 50 ms to be noticed keeps its communicator until the exit.
class AloneStagedStreams : public StagedStreams {};

TEST_F(AloneStagedStreams, AnAbortLetsTheStreamGoOn) {
  set_aborts();
  std::atomic<bool> over{false};
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    StandInDriver::use(rank);
    Values data(1000, true, rank);
    if (rank == 0) {
      CallerStream stream(rank);
      EXPECT_EQ(tuttiAllReduce(data.data(), data.data(), 1000, tuttiFloat32, tuttiSum, comm, stream.get()),
                tuttiSuccess);
      EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
      EXPECT_EQ(tuttiStreamSynchronize(stream.get()), tuttiAborted);
      stream.drain();
      over.store(true);
      return;
    }
    await([&] { return over.load(); }, "the end of the test");
    (void)tuttiCommAbort(comm);
  });
}

TEST_F(StagedStreams, AFailedCopyOfAMessageIsADeviceErrorThatAllHearOf) {
  run_threads(2, [](tuttiComm_t comm, int rank) {
    StandInDriver::use(rank);
    Values data(1000, true, rank);
    if (rank == 1) stand_in().fail_next("copy", "an illegal memory access was encountered");
    const tuttiResult_t result = rank == 1 ? tuttiSend(data.data(), 1000, tuttiFloat32, 0, comm, nullptr)
                                           : tuttiRecv(data.data(), 1000, tuttiFloat32, 1, comm, nullptr);
    EXPECT_TRUE(result == tuttiUnhandledCudaError || result == tuttiRemoteError) << result;
    EXPECT_NE(std::string(tuttiGetLastError(comm)).find("illegal memory access"), std::string::npos)
        << tuttiGetLastError(comm);
    EXPECT_NE(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

class AloneStagedFailures : public StagedStreams, public ::testing::WithParamInterface<const char*> {};

// Whatever fails, somebody hears of it (at the very end, perhaps only one), and what stands after the call on the
// caller's stream runs.
TEST_P(AloneStagedFailures, OnAStreamLetItGoOn) {
  set_aborts();
  Meeting together(2);
  std::atomic<int> failed{0};
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    StandInDriver::use(rank);
    Values data(3'000'000, true, rank);
    CallerStream stream(rank);
    std::atomic<bool> behind{false};
    together.arrive_and_wait();
    if (rank == 1) stand_in().fail_next(GetParam(), "an unspecified launch failure");
    together.arrive_and_wait();
    const tuttiResult_t result =
        tuttiAllReduce(data.data(), data.data(), 3'000'000, tuttiFloat32, tuttiSum, comm, stream.get());
    stream.put([&behind] { behind.store(true); });
    if (result == tuttiSuccess) {
      failed += tuttiStreamSynchronize(stream.get()) != tuttiSuccess;
      (void)tuttiCommDestroy(comm);
    } else {
      ++failed;
      EXPECT_EQ(result, tuttiUnhandledCudaError) << tuttiGetLastError(comm);
      EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
    }
    stream.drain();
    EXPECT_TRUE(behind.load());
  });
  EXPECT_GT(failed.load(), 0);
}
INSTANTIATE_TEST_SUITE_P(Functions, AloneStagedFailures,
                         ::testing::Values("create_stream", "allocate_pinned", "wait_for_word", "query", "copy",
                                           "write_word"));

// Such a message follows the default stream, which would end the capture.
TEST_F(StagedStreams, MessagesAreRefusedBesideACaptureWhichGoesOn) {
  Meeting together(2);
  run_threads(2, [&together](tuttiComm_t comm, int rank) {
    StandInDriver::use(rank);
    Values data(1000, true, rank);
    const auto exchange = [&](tuttiStream_t stream) {
      return rank == 0 ? tuttiSend(data.data(), 1000, tuttiFloat32, 1, comm, stream)
                       : tuttiRecv(data.data(), 1000, tuttiFloat32, 0, comm, stream);
    };
    tuttiStream_t queue = nullptr;
    ASSERT_EQ(tuttiStreamCreate(&queue), tuttiSuccess);
    DeviceDriver::Stream captured = nullptr;
    ASSERT_TRUE(stand_in().create_caller_stream(rank, &captured).ok());
    together.arrive_and_wait();
    if (rank == 0) stand_in().begin_capture(captured);
    together.arrive_and_wait();
    EXPECT_EQ(exchange(nullptr), tuttiInvalidUsage);
    EXPECT_NE(std::string(tuttiGetLastError(comm)).find("captured"), std::string::npos) << tuttiGetLastError(comm);
    EXPECT_EQ(exchange(queue), tuttiInvalidUsage);
    ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
    EXPECT_EQ(exchange(nullptr), tuttiInvalidUsage);
    EXPECT_EQ(tuttiGroupEnd(), tuttiInvalidUsage);
    together.arrive_and_wait();
    std::shared_ptr<const Graph> graph;
    if (rank == 0) {
      const Status ended = stand_in().end_capture({captured}, &graph);
      EXPECT_TRUE(ended.ok()) << ended.text();
    }
    together.arrive_and_wait();
    EXPECT_EQ(exchange(nullptr), tuttiSuccess) << tuttiGetLastError(comm);
    ASSERT_TRUE(stand_in().destroy_stream(captured).ok());
    EXPECT_EQ(tuttiStreamDestroy(queue), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

// Work of the caller's holds the stream until the communicator is gone: the stream comes to its wait only then.
TEST_F(AloneStagedStreams, AnAbortLeavesTheWordsOfStreamsThatHaveNotCome) {
  set_aborts();
  const std::size_t lost = stand_in().lost_waits();
  run_threads(2, [](tuttiComm_t comm, int rank) {
    StandInDriver::use(rank);
    Values data(1000, true, rank);
    std::atomic<bool> go{false};
    CallerStream stream(rank);
    stream.hold_until(go);
    EXPECT_EQ(tuttiAllReduce(data.data(), data.data(), 1000, tuttiFloat32, tuttiSum, comm, stream.get()), tuttiSuccess);
    EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
    EXPECT_NE(tuttiStreamSynchronize(stream.get()), tuttiSuccess);
    go.store(true);
    stream.drain();
  });
  EXPECT_EQ(stand_in().lost_waits(), lost);
  run_threads(1, [](tuttiComm_t comm, int) {  // the next one finds what was left behind
    StandInDriver::use(0);
    Values data(1000, true);
    CallerStream stream(0);
    EXPECT_EQ(tuttiSend(data.data(), 1000, tuttiFloat32, 0, comm, stream.get()), tuttiSuccess);
    EXPECT_EQ(tuttiRecv(data.data(), 1000, tuttiFloat32, 0, comm, stream.get()), tuttiSuccess);
    EXPECT_EQ(tuttiStreamSynchronize(stream.get()), tuttiSuccess) << tuttiGetLastError(comm);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

// Its own work may take the caller's stream seconds: whoever waits for that looks now and then, and sleeps between.
TEST_F(StagedStreams, TheWaitForTheCallersWorkIsNoSpin) {
  Meeting together(2);
  run_threads(2, [&together](tuttiComm_t comm, int rank) {
    StandInDriver::use(rank);
    Values data(1000, true, rank);
    {
      std::atomic<bool> go{false};
      CallerStream stream(rank);
      stream.hold_until(go);
      EXPECT_EQ(tuttiAllReduce(data.data(), data.data(), 1000, tuttiFloat32, tuttiSum, comm, stream.get()),
                tuttiSuccess);
      // All looks are counted, also those of the other rank, which may spin before and after.
      together.arrive_and_wait();
      const auto began = std::chrono::steady_clock::now();
      const std::size_t before = stand_in().queries();
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      const std::size_t looks = stand_in().queries() - before;
      const auto passed = std::chrono::steady_clock::now() - began;
      EXPECT_LT(looks, static_cast<std::size_t>(passed / std::chrono::microseconds(20)));
      together.arrive_and_wait();
      go.store(true);
      EXPECT_EQ(tuttiStreamSynchronize(stream.get()), tuttiSuccess) << tuttiGetLastError(comm);
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

TEST_F(Staged, LinksThatAreNotOfferedKeepNoMemory) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const std::size_t before = stand_in().device_allocations();
  tuttiComm_t comms[2];
  ASSERT_EQ(tuttiCommInitAll(comms, 2, nullptr), tuttiSuccess) << tuttiGetLastError(nullptr);
  EXPECT_EQ(stand_in().device_allocations(), before);
  std::vector<std::thread> ends;
  for (const tuttiComm_t comm : comms) ends.emplace_back([comm] { EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess); });
  for (std::thread& end : ends) end.join();
}

}  // namespace
}  // namespace tutti::test
