// Ranks that die while a communicator is split: the others hear of it as they do in any other call.
// Covers comm/split.cc, comm/failure/wait_judge.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <string>
#include <thread>

#include "comm/api/handle.h"
#include "support/depth.h"
#include "support/ranks.h"
#include "support/sanitized.h"
#include "support/seed.h"
#include "support/texts.h"
#include "support/yardstick.h"

namespace tutti::test {
namespace {

using Clock = std::chrono::steady_clock;

/// One of the two exchanges that a split makes on its parent, by hand.
template <std::size_t kSize>
void exchange_as_a_split_does(Communicator& parent, const std::array<std::byte, kSize>& mine) {
  std::vector<std::byte> all(kSize * static_cast<std::size_t>(parent.ranks()));
  CallArguments arguments;
  arguments.collective = Collective::kSplit;
  arguments.send = mine.data();
  arguments.recv = all.data();
  arguments.count = kSize;
  arguments.type = static_cast<int>(DataType::kUint8);
  EXPECT_TRUE(parent.run(&arguments).ok());
}

// It has made the exchanges, and the others wait for it in the join: the root there knows only ranks that have come.
TEST(TimedSplitKill, BetweenTheExchangeAndTheJoinIsNamedByTheParentsNumber) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  constexpr int kRanks = 4, kVictim = 2;
  Processes processes(kRanks, [](tuttiComm_t comm, int rank, Shared& shared) {
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    if (rank == kVictim) {
      exchange_as_a_split_does(*comm->comm, std::array<std::byte, 8>{});    // color 0, key 0
      exchange_as_a_split_does(*comm->comm, std::array<std::byte, 132>{});  // no id: another rank serves it
      shared.step[rank] = 1;
      await_kill();
    }
    tuttiComm_t part = nullptr;
    const tuttiResult_t result = tuttiCommSplit(comm, 0, rank == 0 ? -1 : 1, &part, nullptr);
    shared.report(rank, result, tuttiGetLastError(comm));
    EXPECT_EQ(part, nullptr);
    (void)tuttiCommDestroy(comm);
  });
  processes.shared().wait_for_step(kVictim, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the others are in the join, or come to it
  Yardstick yardstick;
  const Clock::time_point killed = Clock::now();
  processes.signal(kVictim, SIGKILL);
  for (const int rank : {0, 1, 3}) {
    EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
    const Shared& shared = processes.shared();
    EXPECT_EQ(shared.result[rank], tuttiRemoteError) << shared.text[rank];
    EXPECT_TRUE(contains(shared.text[rank], "rank 2 ")) << shared.text[rank];
    EXPECT_TRUE(contains(shared.text[rank], "died during the split")) << shared.text[rank];
  }
  EXPECT_EQ(yardstick.judge(1, Clock::now() - killed), "") << "with the processes' ends";
}

/// Splits, sums, groups of sends, and ends of communicators, until one fails.
tuttiResult_t split_once(tuttiComm_t comm, int rank, int key) {
  tuttiComm_t part = nullptr;
  tuttiResult_t result = tuttiCommSplit(comm, 0, key, &part, nullptr);
  if (result != tuttiSuccess) return result;
  const auto go_on = [&result](tuttiResult_t next) { result = result == tuttiSuccess ? next : result; };
  std::array<float, 100> values{}, more{};
  go_on(tuttiAllReduce(values.data(), values.data(), values.size(), tuttiFloat32, tuttiSum, part, nullptr));
  go_on(tuttiGroupStart());
  go_on(tuttiSend(values.data(), values.size(), tuttiFloat32, (rank + 1) % 4, comm, nullptr));
  go_on(tuttiRecv(more.data(), more.size(), tuttiFloat32, (rank + 3) % 4, comm, nullptr));
  go_on(tuttiGroupEnd());
  go_on(tuttiCommDestroy(part));
  return result;
}

/// As many rounds as the victim is given: it is killed or stopped in one of them.
void split_until_failure(tuttiComm_t comm, int rank, Shared& shared, int key) {
  for (;;) {
    const tuttiResult_t result = split_once(comm, rank, key);
    shared.step[rank].fetch_add(1);
    if (result == tuttiSuccess) continue;
    shared.report(rank, result, tuttiGetLastError(nullptr));
    (void)tuttiCommAbort(comm);
    return;
  }
}

/// How the ranks talk to each other.
struct Way {
  const char* name;
  const char* transport;
  const char* tls;
};

class TimedSplits : public ::testing::TestWithParam<Way> {
 protected:
  static constexpr int kRanks = 4;
  const ScopedSetting quiet_{"TUTTI_LOG", "error"};
  const ScopedSetting transport_{"TUTTI_TRANSPORT", GetParam().transport};
  const ScopedSetting tls_{"TUTTI_TLS", GetParam().tls};
};

// Wherever in splits, sums, sends and ends of communicators it happens.
TEST_P(TimedSplits, AKillAtAnyTimeIsNoticedWithinASecond) {
  SCOPED_TRACE(seed_text());
  std::mt19937 random(test_seed());
  double worst = 0;
  for (int round = 0; round < points_tried(334, kSanitized ? 3 : 5); ++round) {
    Processes processes(
        kRanks, [](tuttiComm_t comm, int rank, Shared& shared) { split_until_failure(comm, rank, shared, -rank); });
    const int victim = static_cast<int>(random() % kRanks);
    for (int rank = 0; rank < kRanks; ++rank) processes.shared().wait_for_step(rank, 2);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30'000));
    Yardstick yardstick;
    const Clock::time_point killed = Clock::now();
    processes.signal(victim, SIGKILL);
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
      EXPECT_NE(processes.shared().result[rank], tuttiTimeout) << processes.shared().text[rank];
      EXPECT_GT(processes.shared().result[rank], 0) << "rank " << rank << " of round " << round;
    }
    const std::chrono::duration<double> took = Clock::now() - killed;
    worst = std::max(worst, took.count());
    EXPECT_EQ(yardstick.judge(1, took), "") << "round " << round << ", rank " << victim;
  }
  RecordProperty("worst_ms", static_cast<int>(1000 * worst));
}

// A stopped rank is silent, not dead: the others end by their deadline, and name it.
TEST_P(TimedSplits, AStopAtAnyTimeEndsByTheDeadlineAndIsNamed) {
  const ScopedSetting call("TUTTI_TIMEOUT", "2");
  const ScopedSetting join("TUTTI_JOIN_TIMEOUT", "2");
  SCOPED_TRACE(seed_text());
  std::mt19937 random(test_seed());
  for (int round = 0; round < points_tried(40, 2); ++round) {
    Processes processes(
        kRanks, [](tuttiComm_t comm, int rank, Shared& shared) { split_until_failure(comm, rank, shared, rank); });
    const int victim = static_cast<int>(random() % kRanks);
    for (int rank = 0; rank < kRanks; ++rank) processes.shared().wait_for_step(rank, 2);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30'000));
    Yardstick yardstick;
    const Clock::time_point stopped = Clock::now();
    stop_process(processes.pid(victim));
    bool named = false;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
      const Shared& shared = processes.shared();
      EXPECT_GT(shared.result[rank], 0) << "rank " << rank << " of round " << round;
      named = named || contains(shared.text[rank], "rank " + std::to_string(victim));
    }
    std::string texts;
    for (int rank = 0; rank < kRanks; ++rank) texts += std::string("\n") + processes.shared().text[rank];
    EXPECT_TRUE(named) << "round " << round << ", rank " << victim << texts;
    // The deadline of a call or of the join that follows it, and the root's grace.
    EXPECT_EQ(yardstick.judge(7, Clock::now() - stopped), "") << "round " << round << ", rank " << victim << texts;
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, TimedSplits,
                         ::testing::Values(Way{"shm", "shm", "off"}, Way{"tcp", "tcp", "off"}, Way{"tls", "tcp", "on"}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tutti::test
