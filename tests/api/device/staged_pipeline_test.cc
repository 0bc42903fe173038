// How sends and receives of device memory use the driver and the staging memory: copies run beside the links, none
// blocks, and nothing is allocated; and what becomes of them when a copy fails or a peer does not come, or dies.
// Covers executor/device/send_staging.cc, executor/device/receive_staging.cc, executor/device/transfer_segments.cc,
// executor/device/staged_executor.cc.
#include <gtest/gtest.h>
#include <signal.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <map>
#include <string>
#include <thread>

#include "support/device/device_processes.h"
#include "support/device/octets.h"
#include "support/device/staged_fixture.h"
#include "support/texts.h"

namespace tutti::test {
namespace {

class StagedPipeline : public StagedStreams {
 protected:
  void TearDown() override {
    stand_in().forget_failures();
    StagedStreams::TearDown();
  }
};

/// Rank 0 sends to rank 1, which receives.
tuttiResult_t pass_octets(Octets& data, int rank, tuttiComm_t comm, tuttiStream_t stream = nullptr) {
  return rank == 0 ? tuttiSend(data.data(), data.size(), tuttiUint8, 1, comm, stream)
                   : tuttiRecv(data.data(), data.size(), tuttiUint8, 0, comm, stream);
}

// While the sender's third copy cannot begin, what its first one brought is on its way to the receiver's device
// already.
TEST_F(StagedPipeline, TheFirstPieceArrivesBeforeTheLastIsCopied) {
  static thread_local bool is_sender = false;
  std::atomic<int> sent{0}, received{0};
  std::atomic<bool> has_arrived{false};
  stand_in().before_each("copy", [&] {
    if (!is_sender) {
      ++received;
    } else if (++sent == 3) {
      has_arrived = await([&] { return received.load() != 0; }, "the first piece");
    }
  });
  run_threads(2, [](tuttiComm_t comm, int rank) {
    StandInDriver::use(rank);
    is_sender = rank == 0;
    Octets data(8 * kMebi, true, rank);
    if (rank == 0) data.fill(1);
    EXPECT_EQ(pass_octets(data, rank, comm), tuttiSuccess) << tuttiGetLastError(comm);
    EXPECT_TRUE(data.is(1));
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
  EXPECT_TRUE(has_arrived.load()) << "the sender had " << sent.load() << " copies";
}

// Of what nobody takes, two chunks are brought to host memory and no more, the second before the first is sent.
TEST_F(StagedPipeline, TheNextPieceIsCopiedWhileTheLinkIsFull) {
  std::atomic<bool> come{false};
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    StandInDriver::use(rank);
    Octets data(16 * kMebi, true, rank);
    if (rank == 0) data.fill(1);
    CallerStream stream(rank);
    if (rank == 0) {
      const std::size_t before = stand_in().calls()["copy"];
      const auto begun = [&] { return stand_in().calls()["copy"] - before; };
      EXPECT_EQ(pass_octets(data, rank, comm, stream.get()), tuttiSuccess) << tuttiGetLastError(comm);
      await([&] { return begun() >= 3; }, "a chunk that the link has taken and two that wait");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      EXPECT_EQ(begun(), 3u) << "of 16";
      come.store(true);
    } else {
      await([&] { return come.load(); }, "the sender's copies");
      EXPECT_EQ(pass_octets(data, rank, comm, stream.get()), tuttiSuccess) << tuttiGetLastError(comm);
    }
    EXPECT_EQ(tuttiStreamSynchronize(stream.get()), tuttiSuccess) << tuttiGetLastError(comm);
    stream.drain();
    EXPECT_TRUE(data.is(1));
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

struct DriverUse {
  std::map<std::string, std::size_t> calls;
  std::size_t pageable;
};
DriverUse driver_use() { return {stand_in().calls(), stand_in().pageable_copies()}; }

// A rank's copies of a message of 16 MiB are 16, each with an event.
TEST_F(StagedPipeline, ALargeMessageBlocksNowhereAndAllocatesNothing) {
  Meeting together(2);
  DriverUse before, after;
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    StandInDriver::use(rank);
    {
      Octets data(16 * kMebi, true, rank);
      EXPECT_EQ(pass_octets(data, rank, comm), tuttiSuccess) << tuttiGetLastError(comm);
      together.arrive_and_wait();
      if (rank == 0) before = driver_use();
      together.arrive_and_wait();
      EXPECT_EQ(pass_octets(data, rank, comm), tuttiSuccess) << tuttiGetLastError(comm);
      together.arrive_and_wait();
      if (rank == 0) after = driver_use();
      together.arrive_and_wait();
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
  EXPECT_EQ(after.pageable, before.pageable);
  for (const char* const name : {"allocate", "allocate_pinned", "allocate_pooled", "create_event", "create_stream"})
    EXPECT_EQ(after.calls[name], before.calls[name]) << name;
  EXPECT_EQ(after.calls["copy"] - before.calls["copy"], 32u);
  EXPECT_LE(after.calls["record"] - before.calls["record"], 32u + 8u);
}

// Copies of small messages are put on the stream together, and looked for by one event.
TEST_F(StagedPipeline, SmallMessagesOfAGroupShareAnEvent) {
  Meeting together(2);
  DriverUse before, after;
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    StandInDriver::use(rank);
    {
      Octets data(100 * 1000, true, rank);
      for (int round = 0; round < 2; ++round) {
        together.arrive_and_wait();
        if (rank == 0) before = driver_use();
        together.arrive_and_wait();
        ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
        for (std::size_t i = 0; i < 100; ++i)
          EXPECT_EQ(rank == 0 ? tuttiSend(data.data() + 1000 * i, 1000, tuttiUint8, 1, comm, nullptr)
                              : tuttiRecv(data.data() + 1000 * i, 1000, tuttiUint8, 0, comm, nullptr),
                    tuttiSuccess);
        ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(comm);
        together.arrive_and_wait();
        if (rank == 0) after = driver_use();
      }
      together.arrive_and_wait();
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
  EXPECT_EQ(after.calls["launch"] - before.calls["launch"], 200u) << "a kernel copies so little";
  EXPECT_EQ(after.pageable, before.pageable);
  EXPECT_LE(after.calls["record"] - before.calls["record"], 10u);
}

class AloneStagedPipeline : public StagedPipeline {};

TEST_F(AloneStagedPipeline, WhoDoesNotComeIsNamedAndTheStreamGoesOn) {
  set_aborts();
  std::atomic<bool> over{false};
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    StandInDriver::use(rank);
    Octets data(16 * kMebi, true, rank);
    EXPECT_EQ(tuttiCommSetTimeout(comm, 0.3), tuttiSuccess);
    if (rank == 0) {
      std::atomic<bool> behind{false};
      CallerStream stream(rank);
      EXPECT_EQ(pass_octets(data, rank, comm, stream.get()), tuttiSuccess);
      stream.put([&behind] { behind.store(true); });
      EXPECT_EQ(tuttiStreamSynchronize(stream.get()), tuttiTimeout);
      EXPECT_TRUE(contains(tuttiGetLastError(comm), "rank 1")) << tuttiGetLastError(comm);
      stream.drain();
      EXPECT_TRUE(behind.load());
      over.store(true);
    }
    await([&] { return over.load(); }, "the end of the test");
    (void)tuttiCommAbort(comm);
  });
}

class AloneStagedPipelineFailures : public StagedPipeline,
                                    public ::testing::WithParamInterface<std::tuple<const char*, int>> {};

// In the middle of a message, of the sender's part or of the receiver's.
TEST_P(AloneStagedPipelineFailures, AreHeardOfByAllAndTheStreamsGoOn) {
  set_aborts();
  const auto [function, failing] = GetParam();
  std::atomic<int> copies{0};
  run_threads(2, [&, function = function, failing = failing](tuttiComm_t comm, int rank) {
    StandInDriver::use(rank);
    Octets data(16 * kMebi, true, rank);
    CallerStream stream(rank);
    std::atomic<bool> behind{false};
    if (rank == 0)
      stand_in().before_each("copy", [&, function, failing] {
        if (++copies == failing) stand_in().fail_next(function, "an unspecified launch failure");
      });
    const tuttiResult_t result = pass_octets(data, rank, comm, stream.get());
    stream.put([&behind] { behind.store(true); });
    if (result == tuttiSuccess) {
      const tuttiResult_t ended = tuttiStreamSynchronize(stream.get());
      EXPECT_TRUE(ended == tuttiUnhandledCudaError || ended == tuttiRemoteError) << ended;
      EXPECT_TRUE(contains(tuttiGetLastError(comm), "unspecified launch failure")) << tuttiGetLastError(comm);
    }
    stream.drain();
    EXPECT_TRUE(behind.load());
    (void)tuttiCommAbort(comm);
  });
}
INSTANTIATE_TEST_SUITE_P(Calls, AloneStagedPipelineFailures,
                         ::testing::Combine(::testing::Values("copy", "query"), ::testing::Values(4, 9)));

/// The process that is killed, and whether the calls are on streams.
class StagedTransferDeath : public ::testing::TestWithParam<std::tuple<int, bool>> {};

// Two processes share a GPU. One is killed at its fourth copy of a message.
TEST_P(StagedTransferDeath, InMidMessageIsNamedAndTheStreamGoesOn) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const auto [victim, streams] = GetParam();
  DeviceLayout layout;
  layout.same_gpus = true;
  DeviceProcesses processes(layout, [victim = victim, streams = streams](tuttiComm_t comm, int rank, Shared& shared) {
    if (comm == nullptr) return;
    Octets data(16 * kMebi, true, 0);
    EXPECT_EQ(pass_octets(data, rank, comm), tuttiSuccess) << tuttiGetLastError(comm);
    std::atomic<int> copies{0};
    if (rank == victim)
      stand_in().before_each("copy", [&copies] {
        if (++copies == 4) ::kill(::getpid(), SIGKILL);
      });
    CallerStream stream(0);
    tuttiResult_t result = pass_octets(data, rank, comm, streams ? stream.get() : nullptr);
    std::atomic<bool> behind{false};
    stream.put([&behind] { behind.store(true); });
    if (streams && result == tuttiSuccess) result = tuttiStreamSynchronize(stream.get());
    shared.report(rank, result, tuttiGetLastError(comm));
    stream.drain();
    EXPECT_TRUE(behind.load());
    (void)tuttiCommAbort(comm);
  });
  EXPECT_EQ(processes.wait(victim), SIGKILL);
  EXPECT_EQ(processes.wait(1 - victim), 0);
  EXPECT_EQ(processes.shared().result[1 - victim], tuttiRemoteError) << processes.text(1 - victim);
  EXPECT_TRUE(contains(processes.text(1 - victim), "died")) << processes.text(1 - victim);
}
INSTANTIATE_TEST_SUITE_P(Rounds, StagedTransferDeath, ::testing::Combine(::testing::Values(0, 1), ::testing::Bool()));

}  // namespace
}  // namespace tutti::test
