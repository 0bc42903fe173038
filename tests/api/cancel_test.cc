// pthread_cancel() of a thread that is in a call: the call ends as if nothing had been asked, the thread after it.
// Covers core/no_cancel.h, comm/api/handle.h, comm/communicator.cc, comm/failure/wait_judge.cc.
#include <gtest/gtest.h>
#include <pthread.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>

#include "support/await.h"
#include "support/ranks.h"

namespace tutti::test {
namespace {

/// What the cancelled thread does; it says where it is, and what came out.
struct Cancelled {
  std::function<tuttiResult_t()> call;
  std::atomic<pid_t> thread{0};
  std::atomic<int> result{-1};

  static void* main(void* self) {
    auto& own = *static_cast<Cancelled*>(self);
    own.thread = ::gettid();
    own.result = own.call();
    ::pthread_testcancel();
    own.result = -2;  // it was never cancelled
    return nullptr;
  }
  /// Runs the call, cancels its thread once it sleeps in it, then lets `after` end the wait.
  void run(const std::function<void()>& after) {
    pthread_t handle{};
    ASSERT_EQ(::pthread_create(&handle, nullptr, main, this), 0);
    await([this] { return thread != 0 && is_asleep(thread); }, "the sleep of the thread");
    ASSERT_EQ(::pthread_cancel(handle), 0);
    EXPECT_EQ(result, -1) << "the call has not ended";
    after();
    void* end = nullptr;
    ASSERT_EQ(::pthread_join(handle, &end), 0);
    EXPECT_EQ(end, PTHREAD_CANCELED);
  }
};

class Cancel : public ::testing::TestWithParam<const char*> {
 protected:
  const ScopedSetting transport_{"TUTTI_TRANSPORT", GetParam()};
};

/// The first call and a repeated one, which takes a shorter way.
TEST_P(Cancel, ACallInProgressEndsRight) {
  std::array<tuttiComm_t, 2> comms{};
  ASSERT_EQ(tuttiCommInitAll(comms.data(), 2, nullptr), tuttiSuccess) << tuttiGetLastError(nullptr);
  for (int round = 0; round < 3; ++round) {
    std::array<int, 2> sums{1, 2};
    Cancelled waiting;
    waiting.call = [&] { return tuttiAllReduce(&sums[1], &sums[1], 1, tuttiInt32, tuttiSum, comms[1], nullptr); };
    waiting.run([&] {
      EXPECT_EQ(tuttiAllReduce(&sums[0], &sums[0], 1, tuttiInt32, tuttiSum, comms[0], nullptr), tuttiSuccess);
    });
    EXPECT_EQ(waiting.result, tuttiSuccess);
    EXPECT_EQ(sums[0], 3);
    EXPECT_EQ(sums[1], 3);
  }
  std::thread other([&] { EXPECT_EQ(tuttiCommDestroy(comms[1]), tuttiSuccess); });
  EXPECT_EQ(tuttiCommDestroy(comms[0]), tuttiSuccess);
  other.join();
}

INSTANTIATE_TEST_SUITE_P(Transports, Cancel, ::testing::Values("shm", "tcp", "inproc"),
                         [](const auto& info) { return std::string(info.param); });

TEST(CancelledWait, AJoinEndsRight) {
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  tuttiComm_t first = nullptr;
  tuttiComm_t second = nullptr;
  Cancelled waiting;
  waiting.call = [&] { return tuttiCommInitRank(&second, 2, id, 1); };
  waiting.run([&] { EXPECT_EQ(tuttiCommInitRank(&first, 2, id, 0), tuttiSuccess); });
  EXPECT_EQ(waiting.result, tuttiSuccess);
  std::thread other([&] { EXPECT_EQ(tuttiCommDestroy(second), tuttiSuccess); });
  EXPECT_EQ(tuttiCommDestroy(first), tuttiSuccess);
  other.join();
}

TEST(CancelledWait, AWaitForAStreamEndsRight) {
  run_threads(2, [](tuttiComm_t comm, int rank) {
    tuttiStream_t stream = nullptr;
    ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    static std::atomic<bool> cancelled;
    if (rank == 0) cancelled = false;
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    int sum = rank + 1;
    if (rank == 0) {
      await([] { return cancelled.load(); }, "the other rank's thread to be cancelled");
      EXPECT_EQ(tuttiAllReduce(&sum, &sum, 1, tuttiInt32, tuttiSum, comm, stream), tuttiSuccess);
      EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess);
    } else {
      EXPECT_EQ(tuttiAllReduce(&sum, &sum, 1, tuttiInt32, tuttiSum, comm, stream), tuttiSuccess);
      Cancelled waiting;
      waiting.call = [&] { return tuttiStreamSynchronize(stream); };
      waiting.run([] { cancelled = true; });
      EXPECT_EQ(waiting.result, tuttiSuccess);
    }
    EXPECT_EQ(sum, 3);
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

}  // namespace
}  // namespace tutti::test
