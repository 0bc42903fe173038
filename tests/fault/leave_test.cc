// Many ranks leave over TCP, together or late: who is not connected to all others hears that they have finished.
// Covers comm/failure/finalization.cc, comm/membership/finalize_exchange.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <chrono>
#include <string>
#include <thread>

#include "support/ranks.h"
#include "support/sanitized.h"
#include "support/yardstick.h"

namespace tutti::test {
namespace {

/// More than 32 processes are connected to a few others each.
constexpr int kManyRanks = kSanitized ? 34 : 48;
constexpr int kLate = 5;

void add_up(tuttiComm_t comm) {
  for (int i = 0; i < 3; ++i) {
    const float one = 1;
    float sum = 0;
    EXPECT_EQ(tuttiAllReduce(&one, &sum, 1, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(sum, kManyRanks);
  }
}

/// Each rank sends a number to the rank at the other end.
void swap_ranks(tuttiComm_t comm, int rank) {
  const int peer = kManyRanks - 1 - rank;
  int got = -1;
  EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
  EXPECT_EQ(tuttiSend(&rank, 1, tuttiInt32, peer, comm, nullptr), tuttiSuccess);
  EXPECT_EQ(tuttiRecv(&got, 1, tuttiInt32, peer, comm, nullptr), tuttiSuccess);
  EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess);
  EXPECT_EQ(got, peer);
}

void leave(tuttiComm_t comm) { EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr); }

/// Runs ranks that are connected to a few others each. Who waits for a connection to a process that is gone fails by
/// the timeout.
void run_over_tcp(const ProcessBody& body) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "tcp");
  const ScopedSetting reconnect("TUTTI_RECONNECT", "1000");
  const ScopedSetting timeout("TUTTI_TIMEOUT", "60");
  Processes processes(kManyRanks, body);
  for (int rank = 0; rank < kManyRanks; ++rank) EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
}

/// A rank's connections may close before its peers have heard that it has all that they sent.
TEST(LeaveOfMany, DoesNotWaitForConnectionsThatOthersHaveClosed) {
  run_over_tcp([](tuttiComm_t comm, int rank, Shared&) {
    add_up(comm);
    swap_ranks(comm, rank);
    leave(comm);
  });
}

/// The others ask it after some 450 ms, and whoever hears that it has finished leaves. 250 ms after the first ones have
/// left, others made new connections in place of theirs. Each of these times failed in most runs.
class LeaveLate : public ::testing::TestWithParam<int> {};

TEST_P(LeaveLate, ARankOfManyOverTcpIsNotTakenForDead) {
  run_over_tcp([milliseconds = GetParam()](tuttiComm_t comm, int rank, Shared&) {
    add_up(comm);
    if (rank == kLate) std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    leave(comm);
  });
}
INSTANTIATE_TEST_SUITE_P(Milliseconds, LeaveLate, ::testing::Values(500, 600, 800),
                         [](const auto& info) { return std::to_string(info.param); });

/// For each communicator half of the ranks are late. When they were asked one by one, it took half a minute. Rank 5 is
/// later still. When it comes, all others have left, and it does not know of some whether they have received its last
/// messages.
TEST(TimedLeave, TwoCommunicatorsInDifferentOrdersOnManyRanks) {
  run_over_tcp([](tuttiComm_t comm, int rank, Shared&) {
    tuttiComm_t second = nullptr;
    ASSERT_EQ(tuttiCommSplit(comm, 0, rank, &second, nullptr), tuttiSuccess) << tuttiGetLastError(comm);
    add_up(comm);
    add_up(second);
    if (rank == kLate) std::this_thread::sleep_for(std::chrono::milliseconds(700));
    Yardstick yardstick;
    const auto begin = Yardstick::Clock::now();
    leave(rank % 2 == 0 ? comm : second);
    leave(rank % 2 == 0 ? second : comm);
    EXPECT_EQ(yardstick.judge(2, Yardstick::Clock::now() - begin), "") << "rank " << rank;
  });
}

/// The last rank only sends in a broadcast of its own, so it waits for nobody, and nobody waits for it. Half of the
/// ranks come when the others, which compare what the late ones have said, have left.
TEST(LeaveOfMany, AFinishedCallThatDiffersIsAnErrorOnAllRanks) {
  run_over_tcp([](tuttiComm_t comm, int rank, Shared& shared) {
    constexpr int kLast = kManyRanks - 1;
    const auto broadcast = [comm](int root) {
      float value = 1;
      EXPECT_EQ(tuttiBroadcast(&value, &value, 1, tuttiFloat32, root, comm, nullptr), tuttiSuccess);
    };
    broadcast(kLast);
    broadcast(0);
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    if (rank == kLast)
      for (int other = 0; other < kLast; ++other) shared.wait_for_step(other, 1);
    broadcast(rank == kLast ? kLast : 0);
    shared.step[rank] = 1;
    shared.wait_for_step(kLast, 1);
    if (rank % 2 == 1)
      for (int other = 0; other < kManyRanks; other += 2) shared.wait_for_step(other, 2);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiMismatch) << "rank " << rank;
    shared.step[rank] = 2;
  });
}

}  // namespace
}  // namespace tutti::test
