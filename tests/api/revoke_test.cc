// A communicator that one rank revokes ends on all of them: calls under way and later ones, whatever they wait for.
// Covers comm/failure/failure_handler.cc, comm/api/api_communicator.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "support/await.h"
#include "support/ranks.h"
#include "support/texts.h"
#include "support/yardstick.h"

namespace tutti::test {
namespace {

using Clock = std::chrono::steady_clock;

/// A call failed because this rank revoked the communicator.
void expect_revoked_by(int revoker, tuttiResult_t result, tuttiComm_t comm) {
  EXPECT_EQ(result, tuttiAborted);
  EXPECT_TRUE(contains(tuttiGetLastError(comm), "rank " + std::to_string(revoker) + " revoked the communicator"))
      << tuttiGetLastError(comm);
}

tuttiResult_t make_sum(tuttiComm_t comm, tuttiStream_t stream = nullptr) {
  static thread_local float value = 1;
  return tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiMax, comm, stream);
}

/// Whatever is called after a revocation, but for what frees the communicator.
void expect_all_calls_refused(int revoker, tuttiComm_t comm) {
  expect_revoked_by(revoker, make_sum(comm), comm);
  float value = 1;
  expect_revoked_by(revoker, tuttiSend(&value, 1, tuttiFloat32, 0, comm, nullptr), comm);
  tuttiComm_t part = nullptr;
  expect_revoked_by(revoker, tuttiCommSplit(comm, 0, 0, &part, nullptr), comm);
  EXPECT_EQ(part, nullptr);
  tuttiResult_t async = tuttiSuccess;
  EXPECT_EQ(tuttiCommGetAsyncError(comm, &async), tuttiSuccess);
  EXPECT_EQ(async, tuttiAborted);
  expect_revoked_by(revoker, tuttiCommFinalize(comm), comm);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

class TimedRevoke : public ::testing::TestWithParam<const char*> {
 protected:
  const ScopedSetting quiet_{"TUTTI_LOG", "error"};
  const ScopedSetting transport_{"TUTTI_TRANSPORT", GetParam()};
};

// Rank 0 waits in a call, rank 1 for a stream, rank 2 in a group; rank 3 revokes.
TEST_P(TimedRevoke, EndsWhatWaitsOnAllRanks) {
  constexpr int kRanks = 4, kRevoker = 3;
  std::atomic<int> waiting{0};
  run_threads(kRanks, [&](tuttiComm_t comm, int rank) {
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    if (rank == kRevoker) {
      await([&] { return waiting == kRanks - 1; }, "the other ranks");
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // they wait by then, or the case shows less
    }
    Yardstick yardstick;
    const Clock::time_point begin = Clock::now();
    ++waiting;
    tuttiStream_t stream = nullptr;
    if (rank == 0) expect_revoked_by(kRevoker, make_sum(comm), comm);
    if (rank == 1) {
      EXPECT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
      EXPECT_EQ(make_sum(comm, stream), tuttiSuccess);
      EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiAborted);
    }
    if (rank == 2) {
      EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
      EXPECT_EQ(make_sum(comm), tuttiSuccess);
      EXPECT_EQ(tuttiGroupEnd(), tuttiAborted);
    }
    if (rank == kRevoker) {
      EXPECT_EQ(tuttiCommRevoke(comm, 0), tuttiSuccess);
    }
    EXPECT_EQ(yardstick.judge(1, Clock::now() - begin), "") << "rank " << rank;
    expect_all_calls_refused(kRevoker, comm);
    if (rank == 1) {
      EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    }
  });
}

// Calls that move nothing never wait, so that only their beginning can tell of the revocation.
TEST_P(TimedRevoke, IsHeardByWhoDoesNotWait) {
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    if (rank == 1) {
      EXPECT_EQ(tuttiCommRevoke(comm, 0), tuttiSuccess);
    } else {
      tuttiResult_t result = tuttiSuccess;
      float value = 1;
      await(
          [&] {
            result = tuttiBroadcast(&value, &value, 0, tuttiFloat32, 0, comm, nullptr);
            return result != tuttiSuccess;
          },
          "the news of the revocation");
      expect_revoked_by(1, result, comm);
    }
    expect_all_calls_refused(1, comm);
  });
}

TEST_P(TimedRevoke, IsHeardByProcesses) {
  Processes processes(3, [](tuttiComm_t comm, int rank, Shared& shared) {
    std::thread revoker;
    if (rank == 1)
      revoker = std::thread([comm, &shared] {
        await([&] { return shared.step[0] > 10 && shared.step[2] > 10; }, "calls of the other ranks");
        EXPECT_EQ(tuttiCommRevoke(comm, 0), tuttiSuccess);
      });
    while (make_sum(comm) == tuttiSuccess) ++shared.step[rank];
    if (rank == 1) revoker.join();
    expect_all_calls_refused(1, comm);
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
}

INSTANTIATE_TEST_SUITE_P(Over, TimedRevoke, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Revoke, ByAllRanksAtOnceNamesOneOfThem) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  run_threads(3, [](tuttiComm_t comm, int) {
    EXPECT_EQ(tuttiCommRevoke(comm, 0), tuttiSuccess);
    EXPECT_EQ(tuttiCommRevoke(comm, 0), tuttiSuccess) << "once more changes nothing";
    EXPECT_EQ(make_sum(comm), tuttiAborted);
    EXPECT_TRUE(contains(tuttiGetLastError(comm), "revoked the communicator")) << tuttiGetLastError(comm);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

TEST(Revoke, ChangesNothingOnACommunicatorThatHasFailed) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  run_threads(2, [](tuttiComm_t comm, int rank) {
    float values[2] = {};
    const auto count = static_cast<std::size_t>(rank + 1);
    EXPECT_EQ(tuttiAllReduce(values, values, count, tuttiFloat32, tuttiSum, comm, nullptr), tuttiMismatch);
    EXPECT_EQ(tuttiCommRevoke(comm, 0), tuttiSuccess);
    EXPECT_EQ(make_sum(comm), tuttiMismatch);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiMismatch);
  });
}

TEST(Revoke, LeavesWhatWasSplitOff) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  run_threads(2, [](tuttiComm_t comm, int) {
    tuttiComm_t part = nullptr;
    ASSERT_EQ(tuttiCommSplit(comm, 0, 0, &part, nullptr), tuttiSuccess);
    EXPECT_EQ(make_sum(part), tuttiSuccess) << "a split looks at its parent until it has ended on all ranks";
    EXPECT_EQ(tuttiCommRevoke(comm, 0), tuttiSuccess);
    EXPECT_EQ(make_sum(part), tuttiSuccess) << tuttiGetLastError(part);
    EXPECT_EQ(tuttiCommDestroy(part), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

TEST(Revoke, WithWrongArgumentsIsRefusedAndChangesNothing) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  EXPECT_EQ(tuttiCommRevoke(nullptr, 0), tuttiInvalidArgument);
  tuttiComm_t comm = nullptr;
  ASSERT_EQ(tuttiCommInitAll(&comm, 1, nullptr), tuttiSuccess);
  EXPECT_EQ(tuttiCommRevoke(comm, 1), tuttiInvalidArgument);
  EXPECT_TRUE(contains(tuttiGetLastError(comm), "flags 1")) << tuttiGetLastError(comm);
  EXPECT_EQ(make_sum(comm), tuttiSuccess);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

}  // namespace
}  // namespace tutti::test
