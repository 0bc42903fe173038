// Ranks that die while a communicator is split: the others hear of it as they do in any other call.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <array>
#include <chrono>
#include <random>
#include <string>
#include <thread>

#include "comm/handle.h"
#include "support/depth.h"
#include "support/ranks.h"
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

void split_until_failure(tuttiComm_t comm, int rank, Shared& shared) {
  for (;;) {
    tuttiComm_t part = nullptr;
    tuttiResult_t result = tuttiCommSplit(comm, 0, -rank, &part, nullptr);
    float value = 1;
    if (result == tuttiSuccess) {
      result = tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, part, nullptr);
      const tuttiResult_t ended = tuttiCommDestroy(part);
      if (result == tuttiSuccess) result = ended;
    }
    shared.step[rank].fetch_add(1);
    if (result == tuttiSuccess) continue;
    shared.report(rank, result, tuttiGetLastError(comm));
    (void)tuttiCommDestroy(comm);
    return;
  }
}

class TimedSplitKills : public ::testing::TestWithParam<const char*> {};

// Wherever in splits, sums and ends of communicators it happens.
TEST_P(TimedSplitKills, AtAnyTimeAreNoticedWithinASecond) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting transport("TUTTI_TRANSPORT", GetParam());
  constexpr int kRanks = 4;
  SCOPED_TRACE(seed_text());
  std::mt19937 random(test_seed());
  for (int round = 0; round < (covers_all() ? 100 : 5); ++round) {
    Processes processes(kRanks, split_until_failure);
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
    EXPECT_EQ(yardstick.judge(1, Clock::now() - killed), "") << "round " << round << ", rank " << victim;
  }
}
INSTANTIATE_TEST_SUITE_P(Transports, TimedSplitKills, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tutti::test
