// One rank is stopped, the others wait for it, and one of these aborts from another thread: what the aborting rank
// waits in, and the abort itself, return in a tenth of a second, and so do the waits of its peers.
// Covers comm/failure/failure_handler.cc, comm/failure/wait_judge.cc, comm/api/api_communicator.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <tuple>

#include "support/await.h"
#include "support/ranks.h"
#include "support/texts.h"
#include "support/yardstick.h"

namespace tutti::test {
namespace {

using Clock = std::chrono::steady_clock;

/// Blocks until the communicator fails; rank 2 takes no part.
using Wait = tuttiResult_t (*)(tuttiComm_t comm, int rank);

tuttiResult_t wait_in_call(tuttiComm_t comm, int /*rank*/) {
  int value = 1;
  return tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiSum, comm, nullptr);
}

tuttiResult_t wait_in_split(tuttiComm_t comm, int rank) {
  tuttiComm_t part = nullptr;
  return tuttiCommSplit(comm, 0, rank, &part, nullptr);
}

tuttiResult_t wait_in_stream(tuttiComm_t comm, int /*rank*/) {
  tuttiStream_t stream = nullptr;
  EXPECT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
  int value = 1;
  tuttiResult_t result = tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiSum, comm, stream);
  if (result == tuttiSuccess) result = tuttiStreamSynchronize(stream);
  (void)tuttiStreamDestroy(stream);
  return result;
}

tuttiResult_t wait_in_group(tuttiComm_t comm, int /*rank*/) {
  int sent = 1, received = 0;
  EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
  EXPECT_EQ(tuttiSend(&sent, 1, tuttiInt32, 2, comm, nullptr), tuttiSuccess);
  EXPECT_EQ(tuttiRecv(&received, 1, tuttiInt32, 2, comm, nullptr), tuttiSuccess);
  return tuttiGroupEnd();
}

constexpr int kStopped = 1;  // steps that the test tells and is told
constexpr int kWaits = 2;
constexpr int kAborts = 3;

void abort_while_waiting(Wait wait, tuttiComm_t comm, Shared& shared) {
  tuttiResult_t result = tuttiSuccess;
  std::atomic<pid_t> thread{0};
  std::thread waiting([&] {
    thread = ::gettid();
    result = wait(comm, 0);
  });
  await([&] { return thread != 0 && is_asleep(thread); }, "the wait");
  await([&] { return shared.step[1] == kWaits; }, "rank 1");
  Yardstick yardstick;
  shared.step[0] = kAborts;
  const Clock::time_point begin = Clock::now();
  EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
  EXPECT_EQ(yardstick.judge(0.1, Clock::now() - begin), "") << "the abort";
  waiting.join();
  EXPECT_EQ(yardstick.judge(0.1, Clock::now() - begin), "") << "what it wakes";
  EXPECT_EQ(result, tuttiAborted);
}

void hear_of_abort(Wait wait, tuttiComm_t comm, Shared& shared) {
  Yardstick yardstick;
  // By a thread of its own, since the moment of the abort is in another process.
  std::thread timer([&] {
    await([&] { return shared.step[0] == kAborts; }, "the abort");
    EXPECT_EQ(yardstick.miss(0.1, [&] { return shared.result[1] >= 0; }), "") << "the peer";
  });
  shared.step[1] = kWaits;
  const tuttiResult_t result = wait(comm, 1);
  shared.report(1, result, tuttiGetLastError(nullptr));
  timer.join();
  EXPECT_EQ(result, tuttiRemoteError) << shared.text[1];
  EXPECT_TRUE(contains(shared.text[1], "rank 0")) << shared.text[1];
  (void)tuttiCommAbort(comm);
}

struct Place {
  const char* name;
  Wait wait;
};

class TimedAborts : public ::testing::TestWithParam<std::tuple<Place, const char*>> {};

TEST_P(TimedAborts, ReturnAndAreHeardAtOnceBesideAStoppedRank) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting transport("TUTTI_TRANSPORT", std::get<1>(GetParam()));
  const Wait wait = std::get<0>(GetParam()).wait;
  Processes processes(3, [wait](tuttiComm_t comm, int rank, Shared& shared) {
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess) << tuttiGetLastError(comm);
    shared.step[rank] = kStopped;
    if (rank == 2) await_kill();
    await([&] { return shared.step[3] == kStopped; }, "the stop of rank 2");
    rank == 0 ? abort_while_waiting(wait, comm, shared) : hear_of_abort(wait, comm, shared);
  });
  processes.shared().wait_for_step(2, kStopped);
  stop_process(processes.pid(2));
  processes.shared().step[3] = kStopped;
  for (const int rank : {0, 1}) EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
}

INSTANTIATE_TEST_SUITE_P(
    From, TimedAborts,
    ::testing::Combine(::testing::Values(Place{"call", &wait_in_call}, Place{"split", &wait_in_split},
                                         Place{"stream", &wait_in_stream}, Place{"group", &wait_in_group}),
                       ::testing::Values("shm", "tcp")),
    [](const auto& info) { return std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param); });

}  // namespace
}  // namespace tutti::test
