// Ranks as processes that are killed, stopped, or leave: the others are told who, in time.
// Covers comm/failure/wait_judge.cc, comm/failure/finalization.cc, comm/membership/process_membership_liveness.cc,
// net/peer_exit_watch.cc.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <thread>
#include <vector>

#include "support/process_usage.h"
#include "support/ranks.h"
#include "support/sanitized.h"
#include "support/texts.h"
#include "support/yardstick.h"

namespace tutti::test {
namespace {

/// Makes calls until one fails, and reports that with the time since the last success and what a second is here.
template <class Call>
void call_until_failure(tuttiComm_t comm, int rank, Shared& shared, const Call& call) {
  Yardstick yardstick;
  for (;;) {
    yardstick.begin();
    const auto start = std::chrono::steady_clock::now();
    const tuttiResult_t code = call();
    if (code == tuttiSuccess) {
      shared.step[rank].fetch_add(1);
      continue;
    }
    const auto waited = std::chrono::steady_clock::now() - start;
    shared.microseconds[rank] = std::chrono::duration_cast<std::chrono::microseconds>(waited).count();
    shared.second_here[rank] = static_cast<long>(yardstick.limit(std::chrono::seconds(1)).count() * 1e6);
    shared.report(rank, code, tuttiGetLastError(comm));
    (void)tuttiCommDestroy(comm);
    return;
  }
}

void reduce_until_failure(tuttiComm_t comm, int rank, Shared& shared, std::size_t count) {
  std::vector<float> data(count, 1.0f), result(count);
  call_until_failure(comm, rank, shared, [&] {
    return tuttiAllReduce(data.data(), result.data(), count, tuttiFloat32, tuttiSum, comm, nullptr);
  });
}

/// Each time four calls on a stream, and a wait for them.
void synchronize_until_failure(tuttiComm_t comm, int rank, Shared& shared) {
  std::vector<float> data(1000, 1.0f), result(1000);
  tuttiStream_t stream = nullptr;
  ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess) << tuttiGetLastError(nullptr);
  call_until_failure(comm, rank, shared, [&] {
    tuttiResult_t code = tuttiSuccess;
    for (int i = 0; i < 4 && code == tuttiSuccess; ++i)
      code = tuttiAllReduce(data.data(), result.data(), data.size(), tuttiFloat32, tuttiSum, comm, stream);
    return code == tuttiSuccess ? tuttiStreamSynchronize(stream) : code;
  });
  (void)tuttiStreamDestroy(stream);
}

/// What a rank that is left reports of a death in its call: an error in time that names one of the victims.
void expect_death_of(std::initializer_list<int> victims, int rank, const Shared& shared) {
  EXPECT_EQ(shared.result[rank], tuttiRemoteError) << shared.text[rank];
  EXPECT_TRUE(std::any_of(victims.begin(), victims.end(), [&](int victim) {
    return contains(shared.text[rank], "rank " + std::to_string(victim) + " ");
  })) << shared.text[rank];
  EXPECT_TRUE(contains(shared.text[rank], "died")) << shared.text[rank];
  EXPECT_LT(shared.microseconds[rank], shared.second_here[rank]) << "rank " << rank;
}

// 20 rounds in all over the sizes: small calls, large ones, and ones in between.
void kill_in_mid_all_reduce(int round) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const std::size_t counts[] = {1, 1000, 300'007, 4'000'000};
  const std::size_t count = counts[round % 4];
  const int ranks = 2 + round % 4;
  const int victim = round % ranks;
  Processes processes(
      ranks, [&](tuttiComm_t comm, int rank, Shared& shared) { reduce_until_failure(comm, rank, shared, count); });
  for (int rank = 0; rank < ranks; ++rank) processes.shared().wait_for_step(rank, 3 + round % 5);
  processes.signal(victim, SIGKILL);
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == victim) continue;
    EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
    expect_death_of({victim}, rank, processes.shared());
  }
}

class TimedKill : public ::testing::TestWithParam<int> {};

TEST_P(TimedKill, InMidAllReduceIsARemoteErrorThatNamesTheRankWithinASecond) { kill_in_mid_all_reduce(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Rounds, TimedKill, ::testing::Range(0, kSanitized ? 6 : 20));

class TimedKillFar : public ::testing::TestWithParam<int> {};

TEST_P(TimedKillFar, IsTheSameOverTcp) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "tcp");
  kill_in_mid_all_reduce(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Rounds, TimedKillFar, ::testing::Range(0, kSanitized ? 4 : 12));

class TimedKills : public ::testing::TestWithParam<const char*> {
 protected:
  const ScopedSetting quiet_{"TUTTI_LOG", "error"};
  const ScopedSetting transport_{"TUTTI_TRANSPORT", GetParam()};
};

// Which of the two a rank hears of first is chance.
TEST_P(TimedKills, OfTwoRanksAtOnceNameOneOfThem) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{300'007}}) {
    Processes processes(
        5, [&](tuttiComm_t comm, int rank, Shared& shared) { reduce_until_failure(comm, rank, shared, count); });
    for (int rank = 0; rank < 5; ++rank) processes.shared().wait_for_step(rank, 3);
    for (const int victim : {1, 3}) processes.signal(victim, SIGKILL);
    for (const int rank : {0, 2, 4}) {
      EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
      expect_death_of({1, 3}, rank, processes.shared());
    }
  }
}

TEST_P(TimedKills, WhileTheOthersWaitForAStreamAreNamed) {
  Processes processes(3, &synchronize_until_failure);
  for (int rank = 0; rank < 3; ++rank) processes.shared().wait_for_step(rank, 3);
  processes.signal(1, SIGKILL);
  for (const int rank : {0, 2}) {
    EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
    expect_death_of({1}, rank, processes.shared());
  }
}

INSTANTIATE_TEST_SUITE_P(Over, TimedKills, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

void stop_a_rank() {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  Processes processes(3, [&](tuttiComm_t comm, int rank, Shared& shared) {
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess) << tuttiGetLastError(comm);
    EXPECT_EQ(tuttiCommSetTimeout(comm, 4), tuttiSuccess);
    reduce_until_failure(comm, rank, shared, 1000);
  });
  for (int rank = 0; rank < 3; ++rank) processes.shared().wait_for_step(rank, 5);
  stop_process(processes.pid(1));
  for (const int rank : {0, 2}) {
    EXPECT_EQ(processes.wait(rank), 0);
    EXPECT_EQ(processes.shared().result[rank], tuttiTimeout) << processes.shared().text[rank];
    EXPECT_TRUE(contains(processes.shared().text[rank], "rank 1 ")) << processes.shared().text[rank];
  }
  processes.signal(1, SIGCONT);
  EXPECT_EQ(processes.wait(1), 0) << "it is told when it goes on";
  EXPECT_NE(processes.shared().result[1], tuttiSuccess);
}

TEST(TimedStop, AStoppedRankIsNamedAtTheDeadline) { stop_a_rank(); }

TEST(TimedStop, AStoppedRankIsNamedAtTheDeadlineOverTcp) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "tcp");
  stop_a_rank();
}

TEST(TimedStop, APauseShorterThanTheTimeoutIsNoError) {
  constexpr int kPaused = 1'000'000;
  Processes processes(2, [&](tuttiComm_t comm, int rank, Shared& shared) {
    int paused = 0;
    for (int i = 0; paused == 0; ++i) {
      const int seen = shared.step[2] == kPaused ? 1 : 0;
      ASSERT_EQ(tuttiAllReduce(&seen, &paused, 1, tuttiInt32, tuttiMin, comm, nullptr), tuttiSuccess);
      shared.step[rank] = i;
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
  processes.shared().wait_for_step(1, 100);
  stop_process(processes.pid(1));
  ::usleep(300'000);
  processes.signal(1, SIGCONT);
  processes.shared().step[2] = kPaused;
  for (const int rank : {0, 1}) EXPECT_EQ(processes.wait(rank), 0);
}

// The data of a rank that left in order is used first: only who still needs it gets an error.
TEST(Leave, AnExitAfterDestroyIsNotADeath) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  Processes processes(3, [&](tuttiComm_t comm, int rank, Shared& shared) {
    float value = static_cast<float>(rank);
    if (rank == 0) {
      EXPECT_EQ(tuttiBroadcast(&value, &value, 1, tuttiFloat32, 0, comm, nullptr), tuttiSuccess);
      EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
      return;
    }
    if (rank == 2) ::usleep(200'000);  // late, most likely; either is right
    EXPECT_EQ(tuttiBroadcast(&value, &value, 1, tuttiFloat32, 0, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(value, 0.0f);
    shared.report(rank, tuttiCommDestroy(comm), tuttiGetLastError(nullptr));
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
  for (const int rank : {1, 2}) EXPECT_EQ(processes.shared().result[rank], tuttiSuccess);
}

TEST(Leave, ANormalExitWithoutDestroyIsNamedButNotCalledADeath) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  Processes processes(2, [&](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    if (rank == 1) std::exit(0);  // runs the exit handlers
    reduce_until_failure(comm, rank, shared, 10);
  });
  for (const int rank : {0, 1}) EXPECT_EQ(processes.wait(rank), 0);
  EXPECT_EQ(processes.shared().result[0], tuttiRemoteError);
  EXPECT_TRUE(contains(processes.shared().text[0], "rank 1 ")) << processes.shared().text[0];
  EXPECT_TRUE(contains(processes.shared().text[0], "left")) << processes.shared().text[0];
}

// The child has copies of its parent's sockets, made behind the library's back: no end of stream tells of the death.
TEST(TimedFork, AParentKilledWhileItsChildLivesOnIsADeath) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  Processes processes(2, [&](tuttiComm_t comm, int rank, Shared& shared) {
    if (rank == 1) {
      const pid_t child = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
      if (child == 0) {
        shared.step[2] = static_cast<int>(::getpid());
        await_kill();
      }
    }
    reduce_until_failure(comm, rank, shared, 100);
  });
  processes.shared().wait_for_step(2, 1);
  for (const int rank : {0, 1}) processes.shared().wait_for_step(rank, 3);
  processes.signal(1, SIGKILL);
  EXPECT_EQ(processes.wait(0), 0);
  EXPECT_EQ(processes.shared().result[0], tuttiRemoteError);
  EXPECT_TRUE(contains(processes.shared().text[0], "rank 1 ")) << processes.shared().text[0];
  EXPECT_LT(processes.shared().microseconds[0], processes.shared().second_here[0]);
  ::kill(processes.shared().step[2], SIGKILL);
}

TEST(Fork, CallsInAForkedChildAreInvalidUsage) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  Processes processes(2, [&](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    const pid_t child = ::fork();
    if (child == 0) {
      const bool refused = tuttiBarrier(comm, nullptr) == tuttiInvalidUsage;
      tuttiComm_t fresh = nullptr;
      const bool refused_too = tuttiCommInitAll(&fresh, 1, nullptr) == tuttiInvalidUsage;
      ::_exit(refused && refused_too ? 0 : 1);
    }
    EXPECT_EQ(await_end(child), 0);
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess) << "the parent goes on";
    shared.report(rank, tuttiCommDestroy(comm), "");
  });
  for (const int rank : {0, 1}) EXPECT_EQ(processes.wait(rank), 0);
}

TEST(Leak, TwoHundredRoundsOfJoinReduceAndDestroyGrowNothing) {
  Processes processes(2, [&](tuttiComm_t first, int rank, Shared& shared) {
    EXPECT_EQ(tuttiBarrier(first, nullptr), tuttiSuccess);
    std::size_t descriptors = 0;
    long kilobytes = 0;
    for (int round = 0; round < 200; ++round) {
      tuttiComm_t comm = nullptr;
      ASSERT_EQ(tuttiCommSplit(first, 0, rank, &comm, nullptr), tuttiSuccess) << tuttiGetLastError(first);
      std::vector<float> data(5000, 1.0f);
      EXPECT_EQ(tuttiAllReduce(data.data(), data.data(), data.size(), tuttiFloat32, tuttiSum, comm, nullptr),
                tuttiSuccess);
      EXPECT_EQ(data[4999], 2.0f);
      EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
      EXPECT_EQ(tuttiBarrier(first, nullptr), tuttiSuccess);
      if (round != 50) continue;
      descriptors = open_descriptors();
      kilobytes = resident_kilobytes();
    }
    // Connections are closed by the service thread: give it the moment that a round gives it.
    (void)comes_true([&] { return open_descriptors() <= descriptors; }, std::chrono::seconds(20));
    EXPECT_LE(open_descriptors(), descriptors + 2);
    if constexpr (!kSanitized) {  // sanitizers keep freed memory for a while
      EXPECT_LE(resident_kilobytes(), kilobytes + 2048);
    }
    shared.report(rank, tuttiCommDestroy(first), "");
  });
  for (const int rank : {0, 1}) EXPECT_EQ(processes.wait(rank), 0);
}

}  // namespace
}  // namespace tutti::test
