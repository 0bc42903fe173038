// What stands in nobody's way: slow log callbacks, a stderr that nobody reads, an abort beside any other call.
// Covers comm/failure/failure_handler.cc, comm/api/api_communicator.cc, comm/api/handle.cc, comm/stream_wait.cc,
// comm/progress_state.cc, core/status.cc.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/await.h"
#include "support/ranks.h"
#include "support/seed.h"
#include "support/texts.h"
#include "support/yardstick.h"

namespace tutti::test {
namespace {

using Clock = std::chrono::steady_clock;

/// A log callback that does not return before it is let go.
class StuckCallback {
 public:
  StuckCallback() {
    calls_ = 0;
    go_ = false;
    tuttiSetLogCallback(
        [](int, const char*, void*) {
          ++calls_;
          await([] { return go_.load(); }, "the end of the callback");
        },
        nullptr);
  }
  ~StuckCallback() {
    go_ = true;
    tuttiSetLogCallback(nullptr, nullptr);
  }
  StuckCallback(const StuckCallback&) = delete;
  StuckCallback& operator=(const StuckCallback&) = delete;
  static int calls() { return calls_; }

 private:
  static inline std::atomic<int> calls_;
  static inline std::atomic<bool> go_;
};

/// Nobody reads what is written to stderr, and there is no more room for it.
class FullStderr {
 public:
  FullStderr() : before_(::dup(STDERR_FILENO)) {
    EXPECT_EQ(::pipe2(ends_.data(), O_CLOEXEC), 0);
    ::fcntl(ends_[1], F_SETFL, O_NONBLOCK);
    const std::string filling(65536, '.');
    while (::write(ends_[1], filling.data(), filling.size()) > 0) continue;
    ::fcntl(ends_[1], F_SETFL, 0);
    ::dup2(ends_[1], STDERR_FILENO);
  }
  ~FullStderr() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    ::close(ends_[0]);  // whoever still writes is refused
    ::close(ends_[1]);
  }
  FullStderr(const FullStderr&) = delete;
  FullStderr& operator=(const FullStderr&) = delete;

 private:
  std::array<int, 2> ends_{};
  int before_;
};

/// Rank 0 aborts while rank 1 waits for it: both are done in a tenth of a second, the peer a moment later.
void expect_quick_abort() {
  std::atomic<pid_t> waiting{0};
  std::atomic<bool> heard{false};
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    if (rank == 1) {
      waiting = ::gettid();
      EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiRemoteError);
      heard = true;
      EXPECT_EQ(tuttiCommDestroy(comm), tuttiRemoteError);
      return;
    }
    await([&] { return waiting != 0 && is_asleep(waiting); }, "the wait of rank 1");
    Yardstick yardstick;
    const Clock::time_point begin = Clock::now();
    EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
    EXPECT_EQ(yardstick.judge(0.1, Clock::now() - begin), "") << "the abort";
    EXPECT_EQ(yardstick.miss(0.1, [&] { return heard.load(); }), "") << "the peer";
  });
}

TEST(TimedAloneAbort, ReturnsWhileALogCallbackDoesNot) {
  const StuckCallback stuck;
  expect_quick_abort();
  EXPECT_EQ(StuckCallback::calls(), 1) << "one line at a time";
}

TEST(TimedAloneAbort, ReturnsWhileNobodyReadsStderr) {
  const FullStderr full;
  expect_quick_abort();
}

// The warning that a rank is missing is logged by the service thread, whose timer ends the join as well.
TEST(TimedAloneJoin, EndsAtItsDeadlineWhileALogCallbackDoesNot) {
  const ScopedSetting deadline("TUTTI_JOIN_TIMEOUT", "1");
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  const StuckCallback stuck;
  tuttiComm_t comm = nullptr;
  Yardstick yardstick;
  const Clock::time_point begin = Clock::now();
  EXPECT_EQ(tuttiCommInitRank(&comm, 2, id, 0), tuttiTimeout);
  EXPECT_EQ(yardstick.judge(1.5, Clock::now() - begin), "");
  EXPECT_TRUE(contains(tuttiGetLastError(nullptr), "rank 1")) << tuttiGetLastError(nullptr);
}

/// Two ranks; of rank 0 three threads: one makes `call`, over and over until it is refused, one asks, one aborts.
void abort_beside(const std::function<tuttiResult_t(tuttiComm_t)>& call) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  for (int round = 0; round < (kSanitized ? 20 : 100); ++round) {
    run_threads(2, [&](tuttiComm_t comm, int rank) {
      if (rank == 1) {
        (void)tuttiCommDestroy(comm);
        return;
      }
      std::atomic<int> begun{0};
      std::thread caller([&] {
        ++begun;
        for (tuttiResult_t last = tuttiSuccess; last != tuttiInvalidUsage && last != tuttiInvalidArgument;)
          last = call(comm);
      });
      std::thread asker([&] {
        ++begun;
        char text[100];
        std::uint64_t bytes = 0;
        while (tuttiCommMemStats(comm, tuttiMemStatShared, &bytes) == tuttiSuccess)
          (void)tuttiCommGetInfo(comm, "transport", text, sizeof text);
      });
      await([&] { return begun == 2; }, "the threads");
      (void)tuttiCommAbort(comm);
      caller.join();
      asker.join();
    });
  }
}

TEST(AloneAbort, MayMeetDestroy) {
  abort_beside([](tuttiComm_t comm) { return tuttiCommDestroy(comm); });
}

TEST(AloneAbort, MayMeetFinalize) {
  abort_beside([](tuttiComm_t comm) {
    (void)tuttiCommFinalize(comm);
    return tuttiCommDestroy(comm);
  });
}

TEST(AloneAbort, MayMeetQuestions) {
  abort_beside([](tuttiComm_t comm) {
    char text[100];
    std::uint64_t bytes = 0;
    (void)tuttiCommMemStats(comm, tuttiMemStatHost, &bytes);
    return tuttiCommGetInfo(comm, "algorithm:all_reduce:1024", text, sizeof text);
  });
}

TEST(AloneAbort, MayMeetRevocations) {
  abort_beside([](tuttiComm_t comm) {
    float value = 1;
    (void)tuttiCommRevoke(comm, 0);
    return tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, comm, nullptr);
  });
}

TEST(AloneAbort, MayMeetGroups) {
  abort_beside([](tuttiComm_t comm) {
    float value = 1;
    (void)tuttiGroupStart();
    (void)tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, comm, nullptr);
    return tuttiGroupEnd();
  });
}

// Both ranks split until that fails; what is split off before is theirs, and well.
TEST(AloneAbort, MayMeetSplits) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  SCOPED_TRACE(seed_text());
  std::mt19937 random(test_seed());
  for (int round = 0; round < (kSanitized ? 10 : 50); ++round) {
    const std::chrono::microseconds pause(random() % 3000);
    run_threads(2, [&](tuttiComm_t comm, int rank) {
      std::atomic<int> splits{0};
      const auto split = [&splits, comm, rank] {
        for (tuttiResult_t last = tuttiSuccess; last == tuttiSuccess;) {
          tuttiComm_t part = nullptr;
          last = tuttiCommSplit(comm, 0, rank, &part, nullptr);
          ++splits;
          EXPECT_EQ(part != nullptr, last == tuttiSuccess);
          if (part != nullptr) (void)tuttiCommDestroy(part);
        }
      };
      if (rank == 1) {
        split();
        EXPECT_EQ(tuttiCommDestroy(comm), tuttiRemoteError) << tuttiGetLastError(nullptr);
        return;
      }
      std::thread caller(split);
      await([&] { return splits > 0; }, "a split");
      std::this_thread::sleep_for(pause);
      EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
      caller.join();
    });
  }
}

TEST(AloneMisuse, ASecondThreadOnACommunicatorIsRefused) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  std::atomic<pid_t> waiting{0};
  std::atomic<bool> refused{false};
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    if (rank == 1) {
      await([&] { return refused.load(); }, "the refusal");
    } else {
      std::thread second([&] {
        await([&] { return waiting != 0 && is_asleep(waiting); }, "the first thread's call");
        EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiInvalidUsage);
        EXPECT_TRUE(contains(tuttiGetLastError(comm), "one at a time")) << tuttiGetLastError(comm);
        int ranks = 0;
        EXPECT_EQ(tuttiCommCount(comm, &ranks), tuttiSuccess) << "questions are allowed at any time";
        refused = true;
      });
      waiting = ::gettid();
      EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
      second.join();
    }
    if (rank == 1) {
      EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

TEST(AloneMisuse, ABlockingCallInACallbackBehindAQueuedOneIsRefused) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  tuttiComm_t comm = nullptr;
  tuttiStream_t first = nullptr, second = nullptr;
  ASSERT_EQ(tuttiCommInitAll(&comm, 1, nullptr), tuttiSuccess);
  ASSERT_EQ(tuttiStreamCreate(&first), tuttiSuccess);
  ASSERT_EQ(tuttiStreamCreate(&second), tuttiSuccess);
  struct State {
    tuttiComm_t comm;
    std::atomic<bool> held{false}, go{false};
    std::atomic<int> result{-1};
  } state{comm};
  const auto block = [](tuttiResult_t, void* user) {
    auto* const known = static_cast<State*>(user);
    known->held = true;
    await([known] { return known->go.load(); }, "a queued call");
    known->result = tuttiBarrier(known->comm, nullptr);
  };
  EXPECT_EQ(tuttiStreamAddCallback(first, block, &state), tuttiSuccess);
  await([&] { return state.held.load(); }, "the callback");
  EXPECT_EQ(tuttiBarrier(comm, second), tuttiSuccess);
  state.go = true;
  EXPECT_EQ(tuttiStreamSynchronize(first), tuttiSuccess);
  EXPECT_EQ(state.result, tuttiInvalidUsage);
  EXPECT_EQ(tuttiStreamSynchronize(second), tuttiSuccess);
  for (tuttiStream_t stream : {first, second}) EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

// The wait for the call on the stream ends by that call's own timeout, which knows who is late.
TEST(TimedAloneStream, ABlockingCallBehindASilentPeerNamesIt) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  std::atomic<bool> over{false};
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    EXPECT_EQ(tuttiCommSetTimeout(comm, 1), tuttiSuccess);
    if (rank == 1) {
      await([&] { return over.load(); }, "the timeout of rank 0");
    } else {
      tuttiStream_t stream = nullptr;
      EXPECT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
      float value = 1;
      EXPECT_EQ(tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, comm, stream), tuttiSuccess);
      EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiTimeout);
      EXPECT_TRUE(contains(tuttiGetLastError(comm), "rank 1 ")) << tuttiGetLastError(comm);
      over = true;
      EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    }
    (void)tuttiCommDestroy(comm);
  });
}

// A callback that never ends holds up all streams of the process: that is final, and told to the others.
TEST(TimedAloneStream, ABlockingCallBehindAStuckCallbackIsATimeoutForAll) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  std::atomic<bool> go{false};
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    EXPECT_EQ(tuttiCommSetTimeout(comm, 1), tuttiSuccess);
    if (rank == 1) {
      EXPECT_EQ(tuttiCommSetTimeout(comm, kFarSeconds), tuttiSuccess);
      float value = 1;
      EXPECT_EQ(tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, comm, nullptr), tuttiTimeout);
      EXPECT_TRUE(contains(tuttiGetLastError(comm), "callback")) << tuttiGetLastError(comm);
      go = true;
    } else {
      tuttiStream_t stream = nullptr;
      EXPECT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
      const auto stay = [](tuttiResult_t, void* user) {
        await([user] { return static_cast<std::atomic<bool>*>(user)->load(); }, "the end of the callback");
      };
      EXPECT_EQ(tuttiStreamAddCallback(stream, stay, &go), tuttiSuccess);
      float value = 1;
      EXPECT_EQ(tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, comm, stream), tuttiSuccess);
      EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiTimeout);
      EXPECT_TRUE(contains(tuttiGetLastError(comm), "callback")) << tuttiGetLastError(comm);
      EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    }
    (void)tuttiCommDestroy(comm);
  });
}

TEST(AloneMisuse, AStreamWithCallsOfAnOpenGroupIsNotDestroyed) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  tuttiComm_t comm = nullptr;
  tuttiStream_t stream = nullptr;
  ASSERT_EQ(tuttiCommInitAll(&comm, 1, nullptr), tuttiSuccess);
  ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
  float value = 1;
  EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
  EXPECT_EQ(tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, comm, stream), tuttiSuccess);
  EXPECT_EQ(tuttiStreamDestroy(stream), tuttiInvalidUsage);
  EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess);
  EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

/// What is thrown is no std::exception: the call fails on both ranks, and nothing waits for it.
void throw_in_operation(bool on_stream) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  run_threads(2, [on_stream](tuttiComm_t comm, int rank) {
    tuttiStream_t stream = nullptr;
    if (on_stream) {
      ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess) << tuttiGetLastError(nullptr);
    }
    tuttiRedOp_t throws{};
    const auto function = [](const void*, void*, std::size_t, tuttiDataType_t, void*) { throw 7; };
    ASSERT_EQ(tuttiRedOpCreateCustom(&throws, function, 1, nullptr, comm), tuttiSuccess) << tuttiGetLastError(comm);
    std::vector<float> data(1000, 1.0f);
    tuttiResult_t result = tuttiAllReduce(data.data(), data.data(), data.size(), tuttiFloat32, throws, comm, stream);
    if (on_stream) {
      EXPECT_EQ(result, tuttiSuccess) << "it is only queued";
      result = tuttiStreamSynchronize(stream);
      EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    }
    EXPECT_TRUE(result == tuttiInternalError || result == tuttiRemoteError) << "rank " << rank << ": " << result;
    EXPECT_TRUE(contains(tuttiGetLastError(comm), "exception")) << tuttiGetLastError(comm);
    EXPECT_EQ(tuttiBarrier(comm, nullptr), result);
    EXPECT_EQ(tuttiCommDestroy(comm), result);
  });
}

TEST(AloneMisuse, AUserOperationThatThrowsFailsItsCallOnAllRanks) { throw_in_operation(false); }

TEST(AloneMisuse, AUserOperationThatThrowsFailsItsCallOnAStreamToo) { throw_in_operation(true); }

TEST(AloneMisuse, ACallbackThatThrowsIsAnErrorOfItsStream) {
  tuttiStream_t stream = nullptr;
  ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
  EXPECT_EQ(tuttiStreamAddCallback(
                stream, [](tuttiResult_t, void*) { throw 7; }, nullptr),
            tuttiSuccess);
  EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiInternalError);
  EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
}

}  // namespace
}  // namespace tutti::test
