// Mismatches, timeouts and aborts with ranks as threads: who is named, on which rank, and that nothing hangs.
// Covers comm/failure/wait_judge.cc, comm/failure/failure_handler.cc, comm/failure/finalization.cc,
// comm/failure/culprit.cc, comm/create.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support/ranks.h"
#include "support/texts.h"
#include "support/yardstick.h"

namespace tutti::test {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

using Calls = std::function<tuttiResult_t(tuttiComm_t, int rank)>;

/// Runs calls that differ between ranks 0 and 1; both must get tuttiMismatch and read both ranks and both calls.
void expect_mismatch(int ranks, const Calls& calls, const std::vector<std::string>& words) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting timeout("TUTTI_TIMEOUT", "0");  // it is not found by the clock
  run_threads(ranks, [&](tuttiComm_t comm, int rank) {
    tuttiResult_t result = calls(comm, rank);
    // A rank that only sent may succeed first; the error is then its next call's.
    if (result == tuttiSuccess) result = tuttiBarrier(comm, nullptr);
    EXPECT_EQ(result, tuttiMismatch) << "rank " << rank << ": " << tuttiGetLastError(comm);
    const std::string text = tuttiGetLastError(comm);
    for (const std::string& word : words) EXPECT_TRUE(contains(text, word)) << word << " is not in: " << text;
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiMismatch) << "final";
    tuttiResult_t async = tuttiSuccess;
    EXPECT_EQ(tuttiCommGetAsyncError(comm, &async), tuttiSuccess);
    EXPECT_EQ(async, tuttiMismatch);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiMismatch);
  });
}

TEST(Mismatch, CountsOfOneAlgorithm) {
  std::vector<float> in(200), out(400);
  expect_mismatch(2,
                  [&](tuttiComm_t comm, int rank) {
                    std::vector<float> mine(200);
                    return tuttiAllReduce(in.data(), mine.data(), rank == 0 ? 100 : 101, tuttiFloat32, tuttiSum, comm,
                                          nullptr);
                  },
                  {"rank 0", "rank 1", "100 float32", "101 float32"});
}

TEST(Mismatch, CountsOnEitherSideOfAnAlgorithmsThreshold) {
  std::vector<float> in(1 << 20);
  expect_mismatch(3,
                  [&](tuttiComm_t comm, int rank) {
                    std::vector<float> mine(1 << 20);
                    return tuttiAllReduce(in.data(), mine.data(), rank == 1 ? 1 << 20 : 2, tuttiFloat32, tuttiSum, comm,
                                          nullptr);
                  },
                  {"rank 1", "1048576 float32", " 2 float32"});
}

TEST(Mismatch, CollectivesTypesOperationsAndRoots) {
  const std::vector<std::pair<Calls, std::vector<std::string>>> cases = {
      {[](tuttiComm_t comm, int rank) {
         float in = 1, out = 0;
         return rank == 0 ? tuttiAllReduce(&in, &out, 1, tuttiFloat32, tuttiSum, comm, nullptr)
                          : tuttiBroadcast(&in, &out, 1, tuttiFloat32, 1, comm, nullptr);
       },
       {"all_reduce", "broadcast", "rank 0", "rank 1"}},
      {[](tuttiComm_t comm, int rank) {
         float in = 1, out = 0;
         return tuttiAllReduce(&in, &out, 1, rank == 0 ? tuttiFloat32 : tuttiInt32, tuttiSum, comm, nullptr);
       },
       {"float32", "int32", "rank 0", "rank 1"}},
      {[](tuttiComm_t comm, int rank) {
         float in = 1, out = 0;
         return tuttiAllReduce(&in, &out, 1, tuttiFloat32, rank == 0 ? tuttiSum : tuttiMax, comm, nullptr);
       },
       {"sum", "max", "rank 0", "rank 1"}},
      {[](tuttiComm_t comm, int rank) {
         float in = 1, out = 0;
         return tuttiReduce(&in, &out, 1, tuttiFloat32, tuttiSum, rank, comm, nullptr);
       },
       {"root 0", "root 1", "rank 0", "rank 1"}},
      {[](tuttiComm_t comm, int rank) {
         float in = 1, out = 0;
         return rank == 0 ? tuttiBarrier(comm, nullptr)
                          : tuttiAllReduce(&in, &out, 1, tuttiFloat32, tuttiSum, comm, nullptr);
       },
       {"barrier", "all_reduce", "rank 0", "rank 1"}},
  };
  for (const auto& [calls, words] : cases) expect_mismatch(2, calls, words);
}

TEST(Mismatch, AnEmptyCallAgainstAFullOne) {
  expect_mismatch(2,
                  [](tuttiComm_t comm, int rank) {
                    float in = 1, out = 0;
                    return tuttiAllReduce(&in, &out, rank == 0 ? 1 : 0, tuttiFloat32, tuttiSum, comm, nullptr);
                  },
                  {"rank 0", "rank 1", " 0 float32", " 1 float32"});
}

TEST(Mismatch, FinalizeAgainstACollective) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    if (rank == 0) {
      const tuttiResult_t destroyed = tuttiCommDestroy(comm);
      EXPECT_TRUE(destroyed == tuttiSuccess || destroyed == tuttiMismatch) << destroyed;  // told while it ends, or not
      return;
    }
    const tuttiResult_t result = tuttiBarrier(comm, nullptr);
    EXPECT_TRUE(result == tuttiMismatch || result == tuttiRemoteError) << result;
    EXPECT_TRUE(contains(tuttiGetLastError(comm), "rank 0")) << tuttiGetLastError(comm);
    EXPECT_EQ(tuttiCommDestroy(comm), result);
  });
}

TEST(Mismatch, SettingsThatMustAgreeAreComparedAtJoin) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  // Settings are read in the call itself, so two groups of calls with another environment in between differ.
  tuttiComm_t comms[2] = {};
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  EXPECT_EQ(tuttiCommInitRank(&comms[0], 2, id, 0), tuttiSuccess);
  {
    const ScopedSetting algorithm("TUTTI_ALGO", "ring");
    EXPECT_EQ(tuttiCommInitRank(&comms[1], 2, id, 1), tuttiSuccess);
  }
  EXPECT_EQ(tuttiGroupEnd(), tuttiMismatch);
  const std::string text = tuttiGetLastError(nullptr);
  EXPECT_TRUE(contains(text, "TUTTI_ALGO") && contains(text, "ring") && contains(text, "auto")) << text;
  EXPECT_EQ(comms[0], nullptr);
  EXPECT_EQ(comms[1], nullptr);
}

TEST(TimedTimeout, NamesTheRankThatDoesNotComeAndNotBefore) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  Meeting callers(2);
  std::atomic<int> ended{0};
  run_threads(3, [&](tuttiComm_t comm, int rank) {
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiCommSetTimeout(comm, 3), tuttiSuccess);
    if (rank != 1) {
      const Clock::time_point start =
          Clock::now();  // of both before either calls: the first to time out tells the other
      callers.arrive_and_wait();
      EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiTimeout);
      EXPECT_TRUE(contains(tuttiGetLastError(comm), "rank 1 has not called")) << tuttiGetLastError(comm);
      EXPECT_GE(seconds_since(start), 2.9);
      ++ended;
    }
    await([&] { return ended >= 2; }, "the others' ends");
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiTimeout) << "told by the others";
  });
}

// Ranks 0..3 in a chain: 3 waits for 2, 2 for 1, 1 for 0, which does not come.
TEST(Timeout, FollowsTheChainToItsEnd) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting chain("TUTTI_ALGO", "chain");
  Meeting callers(3);
  std::atomic<int> ended{0};
  run_threads(4, [&](tuttiComm_t comm, int rank) {
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiCommSetTimeout(comm, rank == 3 ? 3 : kFarSeconds), tuttiSuccess);
    if (rank != 0) {
      float value = 0;
      callers.arrive_and_wait();
      EXPECT_EQ(tuttiBroadcast(&value, &value, 1, tuttiFloat32, 0, comm, nullptr), tuttiTimeout);
      EXPECT_TRUE(contains(tuttiGetLastError(comm), "rank 0 has not called")) << tuttiGetLastError(comm);
      ++ended;
    }
    await([&] { return ended >= 3; }, "the others' ends");
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiTimeout);
  });
}

TEST(Timeout, WarnsOfMissingRanksAtHalfTime) {
  static std::atomic<bool> warned;
  warned = false;
  tuttiSetLogCallback(
      [](int, const char* line, void*) {
        if (contains(line, "not there: rank 1")) warned = true;
      },
      nullptr);
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiCommSetTimeout(comm, 12), tuttiSuccess);
    // Rank 1 comes as soon as it was missed, with half of the timeout to spare.
    if (rank == 1) await([] { return warned.load(); }, "a warning");
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess) << tuttiGetLastError(comm);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
  tuttiSetLogCallback(nullptr, nullptr);
  EXPECT_TRUE(warned);
}

// In a process of its own: an abort beside a call that takes longer than 50 ms to notice it keeps its communicator, and
// with it the hub, until the exit.
TEST(TimedAloneAbort, WakesACallInProgressAndTellsThePeers) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  std::atomic<pid_t> waiting{0};
  run_threads(3, [&](tuttiComm_t comm, int rank) {
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    if (rank == 2) {  // never calls; is told
      tuttiResult_t async = tuttiSuccess;
      const auto told = [&] {
        EXPECT_EQ(tuttiCommGetAsyncError(comm, &async), tuttiSuccess);
        return async != tuttiSuccess;
      };
      await(told, "the news of the abort");
      EXPECT_EQ(async, tuttiRemoteError);
      EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiRemoteError);
      EXPECT_TRUE(contains(tuttiGetLastError(comm), "rank 0 aborted")) << tuttiGetLastError(comm);
      EXPECT_EQ(tuttiCommDestroy(comm), tuttiRemoteError);
      return;
    }
    if (rank == 1) {
      EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiRemoteError);
      EXPECT_EQ(tuttiCommDestroy(comm), tuttiRemoteError);
      return;
    }
    std::thread caller([&] {
      waiting = ::gettid();
      EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiAborted);
    });
    await([&] { return waiting != 0 && is_asleep(waiting); }, "the caller's sleep in the call");
    Yardstick yardstick;
    const Clock::time_point start = Clock::now();
    EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
    EXPECT_EQ(yardstick.judge(1, Clock::now() - start), "");
    caller.join();
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiInvalidUsage) << "the handle is refused from now on";
  });
}

TEST(Broadcast, ARootThatOnlySentHearsOfTheMismatchInFinalize) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    float value = 0;
    if (rank == 0) {
      EXPECT_EQ(tuttiBroadcast(&value, &value, 1, tuttiFloat32, 0, comm, nullptr), tuttiSuccess);
      EXPECT_EQ(tuttiCommFinalize(comm), tuttiMismatch);
    } else {
      EXPECT_EQ(tuttiBroadcast(&value, &value, 1, tuttiInt32, 0, comm, nullptr), tuttiMismatch);
    }
    (void)tuttiCommDestroy(comm);
  });
}

// Both ranks only send, so no message tells; their boards do, when they finalize.
TEST(Broadcast, TwoRootsHearOfTheMismatchInFinalize) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    float value = 0;
    EXPECT_EQ(tuttiBroadcast(&value, &value, 1, tuttiFloat32, rank, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiCommFinalize(comm), tuttiMismatch);
    EXPECT_TRUE(contains(tuttiGetLastError(comm), "root 0") && contains(tuttiGetLastError(comm), "root 1"))
        << tuttiGetLastError(comm);
    (void)tuttiCommDestroy(comm);
  });
}

// In a process of its own: an abort beside a call that takes longer than 50 ms to notice it keeps its communicator, and
// with it the hub, until the exit.
TEST(AloneAbort, MayMeetRunningCallsAndQuestions) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  for (int round = 0; round < 20; ++round) {
    tuttiComm_t comm = nullptr;
    ASSERT_EQ(tuttiCommInitAll(&comm, 1, nullptr), tuttiSuccess);
    std::atomic<bool> started{false};
    std::thread caller([&] {
      float value = 1;
      while (tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, comm, nullptr) == tuttiSuccess) started = true;
    });
    std::thread watcher([&] {
      tuttiResult_t async = tuttiSuccess;
      while (tuttiCommGetAsyncError(comm, &async) == tuttiSuccess && async == tuttiSuccess)
        (void)tuttiGetLastError(comm);
    });
    await([&] { return started.load(); }, "the first call");
    std::thread second([&] { (void)tuttiCommAbort(comm); });
    (void)tuttiCommAbort(comm);
    for (std::thread* thread : {&caller, &watcher, &second}) thread->join();
  }
}

TEST(Log, ACallbackMayMakeCallsThatLog) {
  static std::atomic<int> lines;
  lines = 0;
  tuttiComm_t comm = nullptr;
  ASSERT_EQ(tuttiCommInitAll(&comm, 1, nullptr), tuttiSuccess) << "reads the level";
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  tuttiSetLogCallback(
      [](int, const char*, void*) {
        ++lines;
        (void)tuttiBarrier(nullptr, nullptr);  // refused, and logged
      },
      nullptr);
  EXPECT_EQ(tuttiCommDestroy(nullptr), tuttiInvalidArgument);
  tuttiSetLogCallback(nullptr, nullptr);
  EXPECT_EQ(lines, 1);
}

TEST(Bool, OneRankAloneGetsTruthsToo) {
  tuttiComm_t comm = nullptr;
  ASSERT_EQ(tuttiCommInitAll(&comm, 1, nullptr), tuttiSuccess);
  unsigned char in[3] = {0, 1, 0xec}, out[3] = {9, 9, 9};
  EXPECT_EQ(tuttiAllReduce(in, out, 3, tuttiBool, tuttiSum, comm, nullptr), tuttiSuccess);
  EXPECT_EQ(std::vector<int>(out, out + 3), (std::vector<int>{0, 1, 1}));
  EXPECT_EQ(tuttiReduceScatter(in, in, 3, tuttiBool, tuttiMin, comm, nullptr), tuttiSuccess);
  EXPECT_EQ(in[2], 1);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

}  // namespace
}  // namespace tutti::test
