// Grows that fail: all ranks and newcomers hear why, and the old communicator stays usable.
// Covers comm/grow.cc, comm/join/root.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <chrono>
#include <string>
#include <thread>

#include "support/grown.h"

namespace tutti::test {
namespace {

class GrowFailures : public GrowTest {
 protected:
  static constexpr int kOld = 3;
};

// Rank 1 asks for as many as there are, then rank 2 for one more than the others. A newcomer waits each time, another
// one comes afterwards.
TEST_P(GrowFailures, NranksThatAreWrongOrDiffer) {
  const char* const words[] = {"rank 1: nranks is 3", "nranks is 4 on rank 0, but 5 on rank 2"};
  run_with_newcomers(
      kOld, 2,
      [&](tuttiComm_t comm, int rank) {
        const int asked[2][kOld] = {{4, 3, 4}, {4, 4, 5}};
        for (int round = 0; round < 2; ++round) {
          tuttiUniqueId id{};
          if (rank == 0) id = make_id(comm, round);
          expect_refused(tuttiInvalidArgument, words[round], asked[round][rank], rank == 0 ? &id : nullptr, comm, rank);
          take_step(round);
        }
        await_newcomers();
        expect_destroyed(comm);
      },
      [&](int round) {
        const tuttiUniqueId id = take_id(round);
        expect_turned_away(tuttiInvalidArgument, words[round], 3, 4, id);
        await_step(round, kOld);
        expect_turned_away(tuttiInvalidArgument, words[round], 3, 4, id);
      });
}

TEST_P(GrowFailures, TwoIds) {
  run_with_newcomers(
      kOld, 2,
      [this](tuttiComm_t comm, int rank) {
        tuttiUniqueId id{};
        if (rank < 2) id = make_id(comm, rank);
        expect_refused(tuttiInvalidArgument, "ranks 0 and 1 pass an id", 4, rank < 2 ? &id : nullptr, comm, rank);
        await_newcomers();
        expect_destroyed(comm);
      },
      [this](int newcomer) {
        expect_turned_away(tuttiInvalidArgument, "ranks 0 and 1 pass an id", 3, 4, take_id(newcomer));
      });
}

// The id that nobody passes ends with the communicator.
TEST_P(GrowFailures, NoId) {
  run_with_newcomers(
      kOld, 1,
      [this](tuttiComm_t comm, int rank) {
        if (rank == 2) (void)make_id(comm);
        expect_refused(tuttiInvalidArgument, "id is NULL on all ranks", 4, nullptr, comm, rank);
        await_step(0, 1);
        std::this_thread::sleep_for(std::chrono::milliseconds(200));  // it waits by then, or the case shows less
        expect_destroyed(comm);
        await_newcomers();
      },
      [this](int) {
        const tuttiUniqueId id = take_id();
        take_step(0);
        expect_turned_away(tuttiRemoteError, "rank 2 has ended the communicator that was to grow", 3, 4, id);
      });
}

// What tuttiGetUniqueId made, what was made on another communicator, and what another rank made.
// It stays as good as it was for those whose it is.
TEST_P(GrowFailures, AForeignId) {
  const char* const words = "rank 0: the id is not one that this rank made";
  run(kOld, [&](tuttiComm_t comm, int rank) {
    tuttiComm_t part = nullptr;
    ASSERT_EQ(tuttiCommSplit(comm, 0, rank, &part, nullptr), tuttiSuccess) << last_error(comm);
    tuttiUniqueId id{};
    if (rank == 0) {
      EXPECT_EQ(tuttiGetUniqueId(&id), tuttiSuccess) << last_error();
    }
    expect_refused(tuttiInvalidArgument, words, 4, rank == 0 ? &id : nullptr, comm, rank);
    if (rank == 0) {
      tuttiComm_t alone = nullptr;
      EXPECT_EQ(tuttiCommInitRank(&alone, 1, id, 0), tuttiSuccess) << last_error();
      expect_destroyed(alone);
      id = make_id(part, 1);
    }
    expect_refused(tuttiInvalidArgument, words, 4, rank == 0 ? &id : nullptr, comm, rank);
    if (rank == 1) (void)make_id(comm, 2);
    if (rank == 0) id = take_id(2);
    expect_refused(tuttiInvalidArgument, words, 4, rank == 0 ? &id : nullptr, comm, rank);
    expect_destroyed(part);
    expect_destroyed(comm);
  });
}

TEST_P(GrowFailures, ANewcomerWithTheNumberOfAnOldRank) {
  run_with_newcomers(
      kOld, 1,
      [this](tuttiComm_t comm, int rank) {
        tuttiUniqueId id{};
        if (rank == 1) id = make_id(comm);
        expect_refused(tuttiInvalidArgument, "rank 0 joined twice", 4, rank == 1 ? &id : nullptr, comm, rank);
        await_newcomers();
        expect_destroyed(comm);
      },
      [this](int) { expect_turned_away(tuttiInvalidArgument, "rank 0 joined twice", 0, 4, take_id()); });
}

// The newcomers fail before the old ranks call, who hear of it all the same.
TEST_P(GrowFailures, TwoNewcomersWithOneNumber) {
  run_with_newcomers(
      kOld, 2,
      [this](tuttiComm_t comm, int rank) {
        tuttiUniqueId id{};
        if (rank == 1) id = make_id(comm);
        await_step(0, 2);
        expect_refused(tuttiInvalidArgument, "rank 3 joined twice", 5, rank == 1 ? &id : nullptr, comm, rank);
        await_newcomers();
        expect_destroyed(comm);
      },
      [this](int) {
        expect_turned_away(tuttiInvalidArgument, "rank 3 joined twice", 3, 5, take_id());
        take_step(0);
      });
}

TEST_P(GrowFailures, ANewcomerWithAnotherNumberOfRanks) {
  run_with_newcomers(
      kOld, 1,
      [this](tuttiComm_t comm, int rank) {
        tuttiUniqueId id{};
        if (rank == 1) id = make_id(comm);
        expect_refused(tuttiInvalidArgument, "with 5", 4, rank == 1 ? &id : nullptr, comm, rank);
        await_newcomers();
        expect_destroyed(comm);
      },
      [this](int) { expect_turned_away(tuttiInvalidArgument, "with 4", 3, 5, take_id()); });
}

// One comes and one does not. The old ranks have the deadline; afterwards the id is of no use.
TEST_P(GrowFailures, ANewcomerThatNeverComesIsNamed) {
  run_with_newcomers(
      kOld, 1,
      [this](tuttiComm_t comm, int rank) {
        tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
        config.joinTimeoutSeconds = 2;
        tuttiUniqueId id{};
        if (rank == 1) id = make_id(comm);
        await_step(0, 1);
        std::this_thread::sleep_for(std::chrono::milliseconds(200));  // it waits by then, or the case shows less
        expect_refused(tuttiTimeout, "rank 4 of 5 did not join", 5, rank == 1 ? &id : nullptr, comm, rank, &config);
        tuttiComm_t made = no_communicator();
        EXPECT_NE(grow_to(5, rank == 1 ? &id : nullptr, comm, &made), tuttiSuccess);
        EXPECT_EQ(made, nullptr);
        expect_sum(comm, rank, numbers_to(kOld));
        await_newcomers();
        expect_destroyed(comm);
      },
      [this](int) {
        const tuttiUniqueId id = take_id();
        take_step(0);
        expect_turned_away(tuttiTimeout, "rank 4 of 5 did not join", 3, 5, id);
      });
}

TEST_P(GrowFailures, AnIdServesOneAttempt) {
  run_with_newcomers(
      kOld, 1,
      [this](tuttiComm_t comm, int rank) {
        tuttiUniqueId id{};
        if (rank == 1) id = make_id(comm);
        tuttiComm_t made = nullptr;
        ASSERT_EQ(grow_to(4, rank == 1 ? &id : nullptr, comm, &made), tuttiSuccess) << last_error(comm);
        expect_refused(tuttiInvalidUsage, "rank 1: this unique id was used", 4, rank == 1 ? &id : nullptr, comm, rank);
        expect_grown(made, rank, 4);
        expect_destroyed(made);
        expect_destroyed(comm);
      },
      [this](int) {
        tuttiComm_t made = nullptr, again = no_communicator();
        ASSERT_EQ(come_as(3, 4, take_id(), &made), tuttiSuccess) << last_error();
        EXPECT_NE(come_as(3, 4, take_id(), &again), tuttiSuccess);
        EXPECT_EQ(again, nullptr);
        expect_grown(made, 3, 4);
        expect_destroyed(made);
      });
}

TEST_P(GrowFailures, SettingsThatDiffer) {
  run_with_newcomers(
      kOld, 1,
      [this](tuttiComm_t comm, int rank) {
        tuttiUniqueId id{};
        if (rank == 0) id = make_id(comm);
        expect_refused(tuttiMismatch, "TUTTI_DETERMINISTIC", 4, rank == 0 ? &id : nullptr, comm, rank);
        await_newcomers();
        expect_destroyed(comm);
      },
      [this](int) {
        tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
        config.deterministic = 1;
        expect_turned_away(tuttiMismatch, "TUTTI_DETERMINISTIC", 3, 4, take_id(), &config);
      });
}

INSTANTIATE_TEST_SUITE_P(Ways, GrowFailures,
                         ::testing::Values(ShrinkWay{"threads_shm", "shm", false, "off", false},
                                           ShrinkWay{"threads_tcp", "tcp", false, "off", false},
                                           ShrinkWay{"shm", "shm", true, "off", false},
                                           ShrinkWay{"tcp", "tcp", true, "off", false}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tutti::test
