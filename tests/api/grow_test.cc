// Newcomers join the ranks of a communicator, which keep their numbers and their old communicator.
// Covers comm/grow.cc, comm/join/root.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <vector>

#include "support/grown.h"

namespace tutti::test {
namespace {

class Grows : public GrowTest {
 protected:
  static constexpr int kOld = 3;

  /// By so many newcomers, with an id that rank 1 makes.
  void grow_by(int newcomers) {
    const int all = kOld + newcomers;
    run_with_newcomers(
        kOld, newcomers,
        [&](tuttiComm_t comm, int rank) {
          tuttiComm_t made = nullptr;
          tuttiUniqueId id{};
          if (rank == 1) id = make_id(comm);
          ASSERT_EQ(grow_to(all, rank == 1 ? &id : nullptr, comm, &made), tuttiSuccess) << last_error(comm);
          expect_grown(made, rank, all);
          expect_sum(comm, rank, numbers_to(kOld));
          expect_destroyed(made);
          expect_sum(comm, rank, numbers_to(kOld));
          expect_destroyed(comm);
        },
        [&](int newcomer) {
          tuttiComm_t made = nullptr;
          ASSERT_EQ(come_as(kOld + newcomer, all, take_id(), &made), tuttiSuccess) << last_error();
          expect_grown(made, kOld + newcomer, all);
          expect_destroyed(made);
        });
  }
};

TEST_P(Grows, ByOne) { grow_by(1); }
TEST_P(Grows, ByThree) { grow_by(3); }

// The first newcomer makes the id for the second, and the old ranks grow once more, by a third.
TEST_P(Grows, AGrownOneGrowsAndSoDoesTheOldOne) {
  const auto grow_again = [this](tuttiComm_t grown, int rank, tuttiComm_t* made) {
    tuttiUniqueId id{};
    if (rank == 3) id = make_id(grown, 1);
    ASSERT_EQ(grow_to(5, rank == 3 ? &id : nullptr, grown, made), tuttiSuccess) << last_error(grown);
    expect_grown(*made, rank, 5);
  };
  run_with_newcomers(
      kOld, 3,
      [&](tuttiComm_t comm, int rank) {
        tuttiComm_t made[3] = {};
        tuttiUniqueId id{};
        if (rank == 0) id = make_id(comm, 0);
        ASSERT_EQ(grow_to(4, rank == 0 ? &id : nullptr, comm, &made[0]), tuttiSuccess) << last_error(comm);
        expect_grown(made[0], rank, 4);
        grow_again(made[0], rank, &made[1]);
        if (rank == 2) id = make_id(comm, 2);
        ASSERT_EQ(grow_to(4, rank == 2 ? &id : nullptr, comm, &made[2]), tuttiSuccess) << last_error(comm);
        expect_grown(made[2], rank, 4);
        expect_grown(made[0], rank, 4);
        for (const tuttiComm_t one : {made[0], made[1], made[2], comm}) expect_destroyed(one);
      },
      [&](int newcomer) {
        const int ranks[] = {4, 5, 4};
        const int rank = ranks[newcomer] - 1;
        tuttiComm_t made = nullptr, again = nullptr;
        ASSERT_EQ(come_as(rank, rank + 1, take_id(newcomer), &made), tuttiSuccess) << last_error();
        expect_grown(made, rank, rank + 1);
        if (newcomer == 0) {
          grow_again(made, rank, &again);
          expect_grown(made, rank, 4);
        }
        expect_destroyed(made);
        if (again != nullptr) expect_destroyed(again);
      });
}

// A rank that was left out comes back as a newcomer, with another number.
TEST_P(Grows, AfterAShrinkWhoWasLeftOutComesBack) {
  constexpr int kOut = 1;
  run(kOld, [this](tuttiComm_t comm, int rank) {
    tuttiComm_t back = nullptr;
    if (rank == kOut) {
      expect_left_out(max_of(comm), comm);
      ASSERT_EQ(come_as(2, 3, take_id(), &back), tuttiSuccess) << last_error();
      expect_grown(back, 2, 3);
      take_step(0);
      EXPECT_EQ(tuttiCommDestroy(comm), tuttiRemoteError);
    } else {
      tuttiComm_t made = nullptr;
      expect_shrinks_to({0, 2}, {kOut}, comm, rank, &made);
      const int own = rank / 2;
      tuttiUniqueId id{};
      if (own == 1) id = make_id(made);
      ASSERT_EQ(grow_to(3, own == 1 ? &id : nullptr, made, &back), tuttiSuccess) << last_error(made);
      expect_grown(back, own, 3);
      await_step(0, 1);
      expect_destroyed(made);
      expect_destroyed(comm);
    }
    expect_destroyed(back);
  });
}

// What was called before on a stream has ended when the call returns.
TEST_P(Grows, EarlierOperationsEndFirst) {
  run_with_newcomers(
      kOld, 1,
      [this](tuttiComm_t comm, int rank) {
        tuttiStream_t stream = nullptr;
        ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
        std::vector<int> values(100'000, 1 << rank);
        EXPECT_EQ(tuttiAllReduce(values.data(), values.data(), values.size(), tuttiInt32, tuttiSum, comm, stream),
                  tuttiSuccess);
        tuttiComm_t made = nullptr;
        tuttiUniqueId id{};
        if (rank == 2) id = make_id(comm);
        ASSERT_EQ(grow_to(4, rank == 2 ? &id : nullptr, comm, &made), tuttiSuccess) << last_error(comm);
        EXPECT_EQ(values, std::vector<int>(values.size(), sum_of({0, 1, 2})));
        EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess);
        EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
        expect_destroyed(made);
        expect_destroyed(comm);
      },
      [this](int) {
        tuttiComm_t made = nullptr;
        ASSERT_EQ(come_as(3, 4, take_id(), &made), tuttiSuccess) << last_error();
        expect_destroyed(made);
      });
}

TEST_P(Grows, APartOfAGrownOneHasOldAndNewRanks) {
  run_with_newcomers(
      2, 2,
      [this](tuttiComm_t comm, int rank) {
        tuttiComm_t made = nullptr, part = nullptr;
        tuttiUniqueId id{};
        if (rank == 0) id = make_id(comm);
        ASSERT_EQ(grow_to(4, rank == 0 ? &id : nullptr, comm, &made), tuttiSuccess) << last_error(comm);
        ASSERT_EQ(tuttiCommSplit(made, rank, 0, &part, nullptr), tuttiSuccess) << last_error(made);
        expect_sum(part, rank, {rank, rank + 2});
        for (const tuttiComm_t one : {part, made, comm}) expect_destroyed(one);
      },
      [this](int newcomer) {
        tuttiComm_t made = nullptr, part = nullptr;
        ASSERT_EQ(come_as(2 + newcomer, 4, take_id(), &made), tuttiSuccess) << last_error();
        ASSERT_EQ(tuttiCommSplit(made, newcomer, 0, &part, nullptr), tuttiSuccess) << last_error(made);
        expect_sum(part, 2 + newcomer, {newcomer, newcomer + 2});
        for (const tuttiComm_t one : {part, made}) expect_destroyed(one);
      });
}

INSTANTIATE_TEST_SUITE_P(Ways, Grows,
                         ::testing::Values(ShrinkWay{"threads_shm", "shm", false, "off", false},
                                           ShrinkWay{"threads_tcp", "tcp", false, "off", false},
                                           ShrinkWay{"shm", "shm", true, "off", false},
                                           ShrinkWay{"tcp", "tcp", true, "off", false},
                                           ShrinkWay{"tls", "tcp", true, "on", false},
                                           ShrinkWay{"secret", "tcp", true, "off", true}),
                         [](const auto& info) { return std::string(info.param.name); });

// Two ranks and a newcomer in one thread; the maker's call is the second of the group.
TEST(GrowGroups, OfRanksAndANewcomerInOneThread) {
  tuttiComm_t comms[2] = {}, made[3] = {no_communicator(), no_communicator(), no_communicator()};
  ASSERT_EQ(tuttiCommInitAll(comms, 2, nullptr), tuttiSuccess) << last_error();
  tuttiUniqueId id{};
  ASSERT_EQ(tuttiCommGetUniqueId(comms[1], &id), tuttiSuccess) << last_error();
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  EXPECT_EQ(grow_to(3, nullptr, comms[0], &made[0]), tuttiSuccess);
  EXPECT_EQ(grow_to(3, &id, comms[1], &made[1]), tuttiSuccess);
  EXPECT_EQ(come_as(2, 3, id, &made[2]), tuttiSuccess);
  for (const tuttiComm_t one : made) EXPECT_EQ(one, nullptr) << "it is set at the end of the group";
  ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << last_error();
  int values[3] = {1, 2, 4};
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_NE(made[rank], nullptr);
    EXPECT_EQ(tuttiAllReduce(&values[rank], &values[rank], 1, tuttiInt32, tuttiSum, made[rank], nullptr), tuttiSuccess);
  }
  ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << last_error();
  for (const int value : values) EXPECT_EQ(value, 7);
  for (const tuttiComm_t one : made) expect_destroyed(one);
  for (const tuttiComm_t one : comms) expect_destroyed(one);
}

TEST(GrowGroups, WhatIsRefusedIsRefusedAtTheEndOfTheGroup) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  tuttiComm_t comms[2] = {}, made[2] = {};
  ASSERT_EQ(tuttiCommInitAll(comms, 2, nullptr), tuttiSuccess) << last_error();
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(grow_to(2, nullptr, comms[rank], &made[rank]), tuttiSuccess);
  EXPECT_EQ(tuttiGroupEnd(), tuttiInvalidArgument);
  EXPECT_TRUE(contains(last_error(), "nranks is 2")) << last_error();
  for (const tuttiComm_t one : made) EXPECT_EQ(one, nullptr);
  for (const tuttiComm_t one : comms) expect_destroyed(one);
}

}  // namespace
}  // namespace tutti::test
