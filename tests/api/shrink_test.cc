// Ranks that stay make a communicator of themselves: of healthy ones, failed ones and revoked ones, as threads and as
// processes.
// Covers comm/shrink.cc, comm/recovery/process_recovery.cc, comm/recovery/shrink_call.cc,
// comm/communicator_information.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "support/held_operation.h"
#include "support/shrunk.h"

namespace tutti::test {
namespace {

class Shrinks : public ShrinkTest {};

TEST_P(Shrinks, WithoutALossBothCommunicatorsWork) {
  run(3, [](tuttiComm_t comm, int rank) {
    tuttiComm_t made[2] = {};
    for (tuttiComm_t& one : made) expect_shrinks_to({0, 1, 2}, {}, comm, rank, &one);
    expect_sum(comm, rank, {0, 1, 2});
    EXPECT_EQ(tuttiCommDestroy(made[0]), tuttiSuccess) << tuttiGetLastError(nullptr);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
    expect_sum(made[1], rank, {0, 1, 2});
    EXPECT_EQ(tuttiCommDestroy(made[1]), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

// Rank 1 is in a call meanwhile, which would wait for ever.
TEST_P(Shrinks, WhoIsExcludedHearsItFromItsCall) {
  constexpr int kExcluded = 1;
  run(4, [this](tuttiComm_t comm, int rank) {
    if (rank == kExcluded) {
      expect_left_out(max_of(comm), comm);
      expect_left_out(max_of(comm), comm);
      expect_shrink_leaves_out(comm);
      take_step(0);
      EXPECT_EQ(tuttiCommDestroy(comm), tuttiRemoteError);
      return;
    }
    tuttiComm_t made = nullptr;
    expect_shrinks_to({0, 2, 3}, {kExcluded}, comm, rank, &made);
    expect_left_out(max_of(comm), comm);
    await_step(0, 1);  // or it would hear first that somebody has left
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
    EXPECT_EQ(tuttiCommDestroy(made), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

// Rank 1 has nobody to wait for in its call.
TEST(ShrinkOfThreads, WhoIsExcludedHearsItFromACallThatOnlySends) {
  SharedMemory<std::atomic<int>> gone_on;
  run_threads(3, [&](tuttiComm_t comm, int rank) {
    int value = 1;
    if (rank == 1) {
      await([&] { return *gone_on == 2; }, "the shrink of the others");
      expect_left_out(tuttiBroadcast(&value, &value, 1, tuttiInt32, 1, comm, nullptr), comm);
      EXPECT_EQ(tuttiCommDestroy(comm), tuttiRemoteError);
      return;
    }
    tuttiComm_t made = nullptr;
    expect_shrinks_to({0, 2}, {1}, comm, rank, &made);
    ++*gone_on;
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
    EXPECT_EQ(tuttiCommDestroy(made), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

// The caller's own code keeps the communicator of rank 2, which was aborted; rank 1 has finalized. Nobody waits for
// either, though there is no deadline.
TEST(ShrinkOfThreads, WhoCannotShrinkAnyMoreIsNotWaitedFor) {
  HeldOperation held;
  std::atomic<bool> ended{false};
  run_threads(3, [&](tuttiComm_t comm, int rank) {
    tuttiRedOp_t op = tuttiSum;
    ASSERT_EQ(tuttiRedOpCreateCustom(&op, HeldOperation::run, 1, &held, comm), tuttiSuccess) << tuttiGetLastError(comm);
    int value = 1;
    if (rank == 2) {
      std::thread aborter([&] {
        await([&] { return held.begun.load(); }, "the operation");
        EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
      });
      (void)tuttiReduce(&value, &value, 1, tuttiInt32, op, 2, comm, nullptr);  // it may have come to its end
      aborter.join();
      return;
    }
    EXPECT_EQ(tuttiReduce(&value, &value, 1, tuttiInt32, op, 2, comm, nullptr), tuttiSuccess);
    tuttiResult_t error = tuttiSuccess;
    await([&] { return tuttiCommGetAsyncError(comm, &error) == tuttiSuccess && error != tuttiSuccess; }, "the abort");
    if (rank == 1) {
      EXPECT_NE(tuttiCommFinalize(comm), tuttiSuccess);
      await([&] { return ended.load(); }, "the shrink of rank 0");
      EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
      return;
    }
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.joinTimeoutSeconds = 0;
    tuttiComm_t made = nullptr;
    expect_shrinks_to({0}, {}, comm, rank, &made, &config);
    ended = true;
    held.let_go = true;
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
    EXPECT_EQ(tuttiCommDestroy(made), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

// What anybody excludes is out, though it calls itself; one of the lists names a rank twice.
TEST_P(Shrinks, TheListsOfAllCount) {
  run(5, [this](tuttiComm_t comm, int rank) {
    if (rank == 0 || rank == 3) {
      expect_shrink_leaves_out(comm);
      take_step(0);
      await_step(0, 2);  // or one of them would hear first that the other has left
      EXPECT_EQ(tuttiCommDestroy(comm), tuttiRemoteError);
      return;
    }
    tuttiComm_t made = nullptr;
    const std::vector<int> lists[] = {{}, {3, 3, 3}, {0}, {}, {}};
    expect_shrinks_to({1, 2, 4}, lists[rank], comm, rank, &made);
    await_step(0, 2);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
    EXPECT_EQ(tuttiCommDestroy(made), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

// Rank 2 excludes the others, which need not have called.
TEST_P(Shrinks, ToASingleRank) {
  run(3, [this](tuttiComm_t comm, int rank) {
    if (rank != 2) {
      expect_left_out(max_of(comm), comm);
      expect_shrink_leaves_out(comm);
      take_step(0);
      await_step(0, 2);
      EXPECT_EQ(tuttiCommDestroy(comm), tuttiRemoteError);
      return;
    }
    tuttiComm_t made = nullptr, again = nullptr;
    expect_shrinks_to({2}, {0, 1}, comm, rank, &made);
    ASSERT_EQ(shrink_without({}, made, &again), tuttiSuccess) << tuttiGetLastError(nullptr);
    expect_shrunk(again, 0, {0});
    await_step(0, 2);
    for (tuttiComm_t one : {comm, made, again}) EXPECT_EQ(tuttiCommDestroy(one), tuttiSuccess);
  });
}

// Whose call is known first is chance: it goes on alone, if the others have not excluded it by then.
TEST_P(Shrinks, WhoExcludesAnotherIsNotWithIt) {
  run(3, [this](tuttiComm_t comm, int rank) {
    tuttiComm_t made = nullptr;
    const tuttiResult_t result = shrink_without({(rank + 1) % 3, (rank + 2) % 3}, comm, &made);
    if (result == tuttiSuccess) {
      take_step(1);
      expect_shrunk(made, rank, {rank});
      EXPECT_EQ(tuttiCommDestroy(made), tuttiSuccess);
    } else {
      expect_left_out(result, comm);
      EXPECT_EQ(made, nullptr);
    }
    take_step(0);
    await_step(0, 3);
    EXPECT_LE(steps_taken(1), 1) << "two of them go on";
    (void)tuttiCommDestroy(comm);
  });
}

TEST_P(Shrinks, AfterARevocation) {
  run(3, [](tuttiComm_t comm, int rank) {
    if (rank == 1) {
      EXPECT_EQ(tuttiCommRevoke(comm, 0), tuttiSuccess);
    } else {
      tuttiResult_t heard = tuttiSuccess;
      while (heard == tuttiSuccess) heard = max_of(comm);
      EXPECT_EQ(heard, tuttiAborted) << tuttiGetLastError(comm);
    }
    tuttiComm_t made = nullptr;
    expect_shrinks_to({0, 1, 2}, {}, comm, rank, &made);
    EXPECT_EQ(max_of(comm), tuttiAborted) << "the old one stays revoked";
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
    expect_sum(made, rank, {0, 1, 2});
    EXPECT_EQ(tuttiCommDestroy(made), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

// Rank 1 waits in a call, rank 2 for a stream with two, and rank 0 does not make them.
TEST_P(Shrinks, WithAbortWhatIsUnderWayEnds) {
  run(3, [this](tuttiComm_t comm, int rank) {
    if (rank == 0) {
      await_step(0, 2);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // they wait by then, or the case shows less
    } else if (rank == 1) {
      take_step(0);
      EXPECT_EQ(max_of(comm), tuttiAborted) << tuttiGetLastError(comm);
    } else {
      tuttiStream_t stream = nullptr;
      EXPECT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
      int values[2] = {};
      for (int& value : values)
        EXPECT_EQ(tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiMax, comm, stream), tuttiSuccess);
      take_step(0);
      EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiAborted);
      EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    }
    tuttiComm_t made = nullptr;
    expect_shrinks_to({0, 1, 2}, {}, comm, rank, &made, nullptr, rank == 0 ? TUTTI_SHRINK_ABORT : 0);
    EXPECT_EQ(max_of(comm), tuttiAborted);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
    EXPECT_EQ(tuttiCommDestroy(made), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

// What is on the streams of the healthy ranks is done first.
TEST_P(Shrinks, WithoutAbortWhatIsUnderWayIsFinished) {
  run(3, [](tuttiComm_t comm, int rank) {
    tuttiStream_t stream = nullptr;
    EXPECT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    std::vector<int> values(300'000, 1 << rank);
    for (int round = 0; round < 2; ++round)
      EXPECT_EQ(tuttiAllReduce(values.data(), values.data(), values.size(), tuttiInt32, tuttiSum, comm, stream),
                tuttiSuccess);
    tuttiComm_t made = nullptr;
    expect_shrinks_to({0, 1, 2}, {}, comm, rank, &made);
    EXPECT_EQ(values, std::vector<int>(values.size(), 21));
    EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess);
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
    EXPECT_EQ(tuttiCommDestroy(made), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

// The deadline of rank 0 is that of all; rank 2 would wait for ever.
TEST_P(Shrinks, WhoHasNotCalledByTheDeadlineIsLeftOut) {
  using Clock = std::chrono::steady_clock;
  constexpr int kLate = 1;
  run(4, [this](tuttiComm_t comm, int rank) {
    if (rank == kLate) {
      await_step(0, 3);
      expect_shrink_leaves_out(comm);
      expect_left_out(max_of(comm), comm);
      take_step(1);
      EXPECT_EQ(tuttiCommDestroy(comm), tuttiRemoteError);
      return;
    }
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.joinTimeoutSeconds = rank == 0 ? 1 : 0;
    tuttiComm_t made = nullptr;
    const Clock::time_point begin = Clock::now();
    ASSERT_EQ(shrink_without({}, comm, &made, rank == 3 ? nullptr : &config), tuttiSuccess) << last_error(comm);
    const std::chrono::duration<double> took = Clock::now() - begin;
    EXPECT_GE(took.count(), rank == 0 ? 0.95 : 0);
    EXPECT_LT(took.count(), kSanitized ? 60 : 20);
    expect_shrunk(made, rank, {0, 2, 3});
    take_step(0);
    await_step(1, 1);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
    EXPECT_EQ(tuttiCommDestroy(made), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

TEST_P(Shrinks, AfterAnAbortByAnotherRank) {
  run(3, [this](tuttiComm_t comm, int rank) {
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    if (rank == 0) {
      await_step(0, 2);
      EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
      tuttiComm_t made = nullptr;
      EXPECT_EQ(shrink_without({}, comm, &made), tuttiInvalidUsage) << tuttiGetLastError(nullptr);
      EXPECT_EQ(made, nullptr);
      return;
    }
    take_step(0);
    EXPECT_EQ(max_of(comm), tuttiRemoteError) << tuttiGetLastError(comm);
    tuttiComm_t made = nullptr;
    expect_shrinks_to({1, 2}, {}, comm, rank, &made);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
    EXPECT_EQ(tuttiCommDestroy(made), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

// Rank 1 gives up while it waits for rank 2, which calls later.
TEST_P(Shrinks, AnAbortEndsTheOwnOneAndNotThatOfOthers) {
  using Clock = std::chrono::steady_clock;
  run(3, [this](tuttiComm_t comm, int rank) {
    tuttiComm_t made = nullptr;
    if (rank == 1) {
      std::atomic<Clock::time_point> aborted{Clock::time_point::max()};
      std::thread aborter([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        aborted = Clock::now();
        EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
      });
      const tuttiResult_t result = shrink_without({}, comm, &made);
      EXPECT_TRUE(result == tuttiAborted || result == tuttiInvalidUsage) << result << tuttiGetLastError(nullptr);
      EXPECT_LT(Clock::now() - aborted.load(), std::chrono::seconds(kSanitized ? 10 : 2));
      EXPECT_EQ(made, nullptr);
      aborter.join();
      take_step(0);
      return;
    }
    if (rank == 2) await_step(0, 1);
    expect_shrinks_to({0, 2}, {}, comm, rank, &made);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
    EXPECT_EQ(tuttiCommDestroy(made), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

TEST_P(Shrinks, AfterAMismatchAllGoOn) {
  run(2, [](tuttiComm_t comm, int rank) {
    float values[2] = {};
    const auto count = static_cast<std::size_t>(rank + 1);
    EXPECT_EQ(tuttiAllReduce(values, values, count, tuttiFloat32, tuttiSum, comm, nullptr), tuttiMismatch);
    tuttiComm_t made = nullptr;
    expect_shrinks_to({0, 1}, {}, comm, rank, &made);
    EXPECT_EQ(max_of(comm), tuttiMismatch) << "the old one has still failed";
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
    EXPECT_EQ(tuttiCommDestroy(made), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

INSTANTIATE_TEST_SUITE_P(Over, Shrinks,
                         ::testing::Values(ShrinkWay{"threads_shm", "shm", false, "off", false},
                                           ShrinkWay{"threads_tcp", "tcp", false, "off", false},
                                           ShrinkWay{"shm", "shm", true, "off", false},
                                           ShrinkWay{"tcp", "tcp", true, "off", false},
                                           ShrinkWay{"tls", "tcp", true, "on", false},
                                           ShrinkWay{"secret", "tcp", true, "off", true}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tutti::test
