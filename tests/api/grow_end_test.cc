// Grows of communicators that fail meanwhile, or have failed or ended before, and calls with wrong arguments.
// Covers comm/grow.cc, comm/parent_monitor.cc, comm/api/api_communicator.cc.
#include <gtest/gtest.h>
#include <signal.h>
#include <tutti/tutti.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "support/grown.h"

namespace tutti::test {
namespace {

class GrowEnds : public GrowTest {
 protected:
  static constexpr int kOld = 3;
};

// A grow is a collective with a name of its own.
TEST_P(GrowEnds, BesideAnotherCallIsAMismatchThatNamesBoth) {
  int round = 0;
  for (const std::string other : {"split", "all_reduce"}) {
    SCOPED_TRACE(other);
    run(kOld, [&](tuttiComm_t comm, int rank) {
      tuttiComm_t made = nullptr;
      tuttiResult_t result = tuttiSuccess;
      tuttiUniqueId id{};
      if (rank == 0) id = make_id(comm);
      if (rank == 0) take_step(round);
      await_step(round, 1);
      if (rank != 1) {
        result = grow_to(4, rank == 0 ? &id : nullptr, comm, &made);
        if (rank == 0) expect_turned_away(tuttiMismatch, "gave up: ", 3, 4, id);
      } else if (other == "split") {
        result = tuttiCommSplit(comm, 0, 0, &made, nullptr);
      } else {
        result = max_of(comm);
      }
      const std::string text = last_error(comm);
      EXPECT_EQ(result, tuttiMismatch) << text;
      EXPECT_EQ(made, nullptr);
      tuttiResult_t async = tuttiSuccess;
      EXPECT_EQ(tuttiCommGetAsyncError(comm, &async), tuttiSuccess);
      EXPECT_EQ(async, tuttiMismatch);
      EXPECT_EQ(tuttiCommDestroy(comm), tuttiMismatch);
      EXPECT_TRUE(contains(last_error(), "grow") && contains(last_error(), other)) << last_error();
    });
    ++round;
  }
}

// Rank 0 made an id before it was revoked.
TEST_P(GrowEnds, OnARevokedCommunicator) {
  run_with_newcomers(
      kOld, 1,
      [this](tuttiComm_t comm, int rank) {
        tuttiUniqueId id{};
        if (rank == 0) id = make_id(comm);
        if (rank == 0) take_step(0);
        if (rank == 1) {
          await_step(0, 1);
          EXPECT_EQ(tuttiCommRevoke(comm, 0), tuttiSuccess);
        }
        await([&] { return max_of(comm) == tuttiAborted; }, "the revocation");
        tuttiUniqueId more{};
        EXPECT_EQ(tuttiCommGetUniqueId(comm, &more), tuttiAborted);
        EXPECT_TRUE(contains(last_error(comm), "rank 1 revoked the communicator")) << last_error(comm);
        tuttiComm_t made = no_communicator();
        const tuttiResult_t result = grow_to(4, rank == 0 ? &id : nullptr, comm, &made);
        expect_not_grown(result, tuttiAborted, "rank 1 revoked the communicator", made, comm);
        await_newcomers();
        expect_destroyed(comm);
      },
      [this](int) { expect_turned_away(tuttiAborted, "rank 1 revoked the communicator", 3, 4, take_id()); });
}

INSTANTIATE_TEST_SUITE_P(Ways, GrowEnds,
                         ::testing::Values(ShrinkWay{"threads_shm", "shm", false, "off", false},
                                           ShrinkWay{"threads_tcp", "tcp", false, "off", false},
                                           ShrinkWay{"shm", "shm", true, "off", false},
                                           ShrinkWay{"tcp", "tcp", true, "off", false}),
                         [](const auto& info) { return std::string(info.param.name); });

class GrowKills : public ::testing::TestWithParam<const char*> {
 protected:
  const ScopedSetting quiet_{"TUTTI_LOG", "error"};
  const ScopedSetting transport_{"TUTTI_TRANSPORT", GetParam()};
};

// All but one newcomer have come, so that all wait when rank 2 is killed.
TEST_P(GrowKills, OfAnOldRankDuringTheJoinIsNamed) {
  constexpr int kOld = 3, kVictim = 2, kNewcomer = 3;
  struct Id {
    std::atomic<bool> is_made{false};
    tuttiUniqueId id{};
  };
  const SharedMemory<Id> shared_id;
  Processes processes(kOld, [&](tuttiComm_t comm, int rank, Shared& shared) {
    tuttiUniqueId id{};
    if (rank == 0) {
      EXPECT_EQ(tuttiCommGetUniqueId(comm, &id), tuttiSuccess) << last_error(comm);
      shared_id->id = id;
      shared_id->is_made = true;
    }
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess) << last_error(comm);
    ++shared.step[rank];
    tuttiComm_t made = no_communicator();
    const tuttiResult_t result = grow_to(5, rank == 0 ? &id : nullptr, comm, &made);
    expect_not_grown(result, tuttiRemoteError, "rank 2 ", made, comm);
    // On a busy machine it may die before the join of all has begun.
    EXPECT_TRUE(contains(last_error(comm), "died during the grow") || contains(last_error(comm), "died during grow"))
        << last_error(comm);
    ++shared.step[rank];
    shared.wait_for_step(1 - rank, 2);  // or one of them would hear of the other's failure
    EXPECT_EQ(max_of(comm), tuttiRemoteError) << last_error(comm);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiRemoteError);
  });
  processes.start([&] {
    await([&] { return shared_id->is_made.load(); }, "the id");
    ++processes.shared().step[kNewcomer];
    tuttiComm_t made = no_communicator();
    const tuttiResult_t result = come_as(kNewcomer, 5, shared_id->id, &made);
    expect_not_grown(result, tuttiRemoteError, "rank 2 ", made);
    settle_threads();
  });
  for (int rank = 0; rank <= kNewcomer; ++rank) processes.shared().wait_for_step(rank, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // they are in the join, or the case shows less
  processes.signal(kVictim, SIGKILL);
  for (const int index : {0, 1, kNewcomer}) EXPECT_EQ(processes.wait(index), 0) << "process " << index;
}

INSTANTIATE_TEST_SUITE_P(Over, GrowKills, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

TEST(GrowArguments, ThatAreWrongOnOneRankAreRefusedThere) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  tuttiComm_t comm = nullptr;
  ASSERT_EQ(tuttiCommInitAll(&comm, 1, nullptr), tuttiSuccess) << last_error();
  tuttiUniqueId id{};
  EXPECT_EQ(tuttiCommGetUniqueId(nullptr, &id), tuttiInvalidArgument);
  EXPECT_EQ(tuttiCommGetUniqueId(comm, nullptr), tuttiInvalidArgument);
  ASSERT_EQ(tuttiCommGetUniqueId(comm, &id), tuttiSuccess) << last_error(comm);
  const auto expect_invalid = [](tuttiComm_t old, int ranks, const tuttiUniqueId* by, int rank,
                                 const tuttiConfig_t* config = nullptr) {
    tuttiComm_t made = no_communicator();
    EXPECT_EQ(tuttiCommGrow(old, ranks, by, rank, &made, config), tuttiInvalidArgument);
    EXPECT_EQ(made, nullptr);
  };
  expect_invalid(nullptr, 2, nullptr, 1);
  expect_invalid(nullptr, 2, nullptr, -1);
  for (const int rank : {-1, 2}) expect_invalid(nullptr, 2, &id, rank);
  for (const int rank : {0, 1, -2}) expect_invalid(comm, 2, &id, rank);
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.joinTimeoutSeconds = -1;
  expect_invalid(comm, 2, &id, -1, &config);
  EXPECT_EQ(tuttiCommGrow(comm, 2, &id, -1, nullptr, nullptr), tuttiInvalidArgument);
  EXPECT_EQ(tuttiCommGrow(nullptr, 2, &id, 1, nullptr, nullptr), tuttiInvalidArgument);

  // Nothing of this has used the id.
  tuttiComm_t made = nullptr;
  std::thread newcomer([&id] {
    tuttiComm_t joined = nullptr;
    EXPECT_EQ(come_as(1, 2, id, &joined), tuttiSuccess) << last_error();
    if (joined != nullptr) expect_destroyed(joined);
  });
  EXPECT_EQ(grow_to(2, &id, comm, &made), tuttiSuccess) << last_error(comm);
  if (made != nullptr) expect_destroyed(made);
  newcomer.join();

  EXPECT_EQ(max_of(comm), tuttiSuccess) << last_error(comm);
  EXPECT_EQ(tuttiCommFinalize(comm), tuttiSuccess);
  EXPECT_EQ(tuttiCommGetUniqueId(comm, &id), tuttiInvalidUsage);
  expect_destroyed(comm);
}

}  // namespace
}  // namespace tutti::test
