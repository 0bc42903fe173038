// Shrinks of shrunk ones, what was split before and what is split after, and processes of several ranks.
// Covers comm/shrink.cc, comm/descendants.h, comm/recovery/process_recovery.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/shrunk.h"

namespace tutti::test {
namespace {

class ShrinkFamilies : public ShrinkTest {};

// Ranks 3, then 0 of those that are left, then 1 of those, which have other numbers each time.
TEST_P(ShrinkFamilies, AShrunkOneShrinksAndSplits) {
  run(4, [this](tuttiComm_t comm, int rank) {
    const std::vector<int> stayed[] = {{0, 1, 2}, {1, 2}};  // by the numbers of the one before
    const std::vector<int> out[] = {{3}, {0}};
    tuttiComm_t now = comm;
    int own = rank;
    std::vector<tuttiComm_t> old;
    for (int round = 0; round < 2; ++round) {
      old.push_back(now);
      if (own == out[round][0]) {
        expect_left_out(max_of(now), now);
        now = nullptr;
        break;
      }
      tuttiComm_t made = nullptr;
      expect_shrinks_to(stayed[round], out[round], now, own, &made);
      now = made;
      EXPECT_EQ(tuttiCommUserRank(now, &own), tuttiSuccess);
    }
    if (now != nullptr) {
      tuttiComm_t part = nullptr;
      EXPECT_EQ(tuttiCommSplit(now, 0, -own, &part, nullptr), tuttiSuccess) << tuttiGetLastError(now);
      expect_sum(part, own, {0, 1});
      int turned = -1;
      EXPECT_EQ(tuttiCommUserRank(part, &turned), tuttiSuccess);
      EXPECT_EQ(turned, 1 - own);
      EXPECT_EQ(tuttiCommDestroy(part), tuttiSuccess) << tuttiGetLastError(nullptr);
      EXPECT_EQ(tuttiCommDestroy(now), tuttiSuccess) << tuttiGetLastError(nullptr);
    }
    take_step(0);
    await_step(0, 4);
    for (const tuttiComm_t one : old) {
      const bool is_out = now == nullptr && one == old.back();
      EXPECT_EQ(tuttiCommDestroy(one), is_out ? tuttiRemoteError : tuttiSuccess) << tuttiGetLastError(nullptr);
    }
  });
}

/// What is split from `comm`, and is shown to work: all ranks, those of one half, and of one half of all.
struct Parts {
  Parts(tuttiComm_t comm, int rank) {
    const int first = rank / 2 * 2;
    EXPECT_EQ(tuttiCommSplit(comm, 0, rank, &whole, nullptr), tuttiSuccess) << tuttiGetLastError(comm);
    expect_sum(whole, rank, {0, 1, 2, 3});
    EXPECT_EQ(tuttiCommSplit(comm, rank / 2, rank, &half, nullptr), tuttiSuccess) << tuttiGetLastError(comm);
    expect_sum(half, rank, {first, first + 1});
    EXPECT_EQ(tuttiCommSplit(whole, rank / 2, rank, &half_of_whole, nullptr), tuttiSuccess) << last_error(whole);
    expect_sum(half_of_whole, rank, {first, first + 1});
  }
  void destroy() {
    for (const tuttiComm_t part : {half_of_whole, half, whole})
      EXPECT_EQ(tuttiCommDestroy(part), tuttiSuccess) << tuttiGetLastError(nullptr);
  }
  tuttiComm_t whole = nullptr, half = nullptr, half_of_whole = nullptr;
};

// Rank 3 is excluded; a split that was destroyed before is no matter.
TEST_P(ShrinkFamilies, SplitsWithARankThatIsLeftOutAreRevokedAndOthersAreNot) {
  run(4, [this](tuttiComm_t comm, int rank) {
    Parts gone(comm, rank);
    gone.destroy();
    Parts parts(comm, rank);
    take_step(1);
    await_step(1, 4);  // or a revocation could meet rank 3 in its last sum
    tuttiComm_t made = nullptr;
    if (rank == 3)
      expect_left_out(max_of(comm), comm);
    else
      expect_shrinks_to({0, 1, 2}, {3}, comm, rank, &made);
    EXPECT_EQ(max_of(parts.whole), tuttiAborted) << tuttiGetLastError(parts.whole);
    for (const tuttiComm_t part : {parts.half, parts.half_of_whole}) {
      if (rank < 2)
        expect_sum(part, rank, {0, 1});
      else
        EXPECT_EQ(max_of(part), tuttiAborted) << tuttiGetLastError(part);
    }
    take_step(0);
    await_step(0, 4);
    parts.destroy();
    EXPECT_EQ(tuttiCommDestroy(comm), rank == 3 ? tuttiRemoteError : tuttiSuccess) << tuttiGetLastError(nullptr);
    if (rank != 3) {
      EXPECT_EQ(tuttiCommDestroy(made), tuttiSuccess) << tuttiGetLastError(nullptr);
    }
  });
}

TEST_P(ShrinkFamilies, SplitsStayIfNobodyIsLeftOut) {
  run(4, [](tuttiComm_t comm, int rank) {
    Parts parts(comm, rank);
    tuttiComm_t made = nullptr;
    expect_shrinks_to({0, 1, 2, 3}, {}, comm, rank, &made, nullptr, TUTTI_SHRINK_ABORT);
    const int first = rank / 2 * 2;
    expect_sum(parts.whole, rank, {0, 1, 2, 3});
    expect_sum(parts.half, rank, {first, first + 1});
    expect_sum(parts.half_of_whole, rank, {first, first + 1});
    parts.destroy();
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
    EXPECT_EQ(tuttiCommDestroy(made), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

INSTANTIATE_TEST_SUITE_P(Over, ShrinkFamilies,
                         ::testing::Values(ShrinkWay{"threads", "shm", false, "off", false},
                                           ShrinkWay{"shm", "shm", true, "off", false},
                                           ShrinkWay{"tcp", "tcp", true, "off", false}),
                         [](const auto& info) { return std::string(info.param.name); });

/// Processes of two ranks each; process p has ranks p and p + 3.
constexpr int kHouses = 3;

/// Rank 4, of process 1, goes first, and then both ranks of process 2, which are 2 and 4 by then.
void shrink_twice(tuttiComm_t comm, int rank, const std::function<void(int step)>& meet) {
  tuttiComm_t once = nullptr, twice = nullptr;
  if (rank == 4)
    expect_left_out(max_of(comm), comm);
  else
    expect_shrinks_to({0, 1, 2, 3, 5}, {4}, comm, rank, &once);
  meet(0);
  if (once != nullptr) {
    int own = -1;
    EXPECT_EQ(tuttiCommUserRank(once, &own), tuttiSuccess);
    if (own == 2 || own == 4)
      expect_left_out(max_of(once), once);
    else
      expect_shrinks_to({0, 1, 3}, {2, 4}, once, own, &twice);
  }
  meet(1);
  EXPECT_EQ(tuttiCommDestroy(comm), rank == 4 ? tuttiRemoteError : tuttiSuccess) << tuttiGetLastError(nullptr);
  if (once != nullptr) {
    EXPECT_EQ(tuttiCommDestroy(once), twice == nullptr ? tuttiRemoteError : tuttiSuccess) << last_error();
  }
  if (twice != nullptr) {
    EXPECT_EQ(tuttiCommDestroy(twice), tuttiSuccess) << tuttiGetLastError(nullptr);
  }
}

class ShrinkHouses : public ::testing::TestWithParam<const char*> {};

TEST_P(ShrinkHouses, RanksOfAProcessStayOrGoByThemselves) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting transport("TUTTI_TRANSPORT", GetParam());
  Processes processes(kHouses, [](tuttiComm_t first, int house, Shared& shared) {
    // The communicator of processes carries the id of the one of ranks.
    tuttiUniqueId id = {};
    if (house == 0) {
      ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
    }
    ASSERT_EQ(tuttiBroadcast(&id, &id, sizeof id, tuttiUint8, 0, first, nullptr), tuttiSuccess);
    const auto meet = [&shared](int step) {
      ++shared.step[step];
      await([&] { return shared.step[step] == 2 * kHouses; }, "the others");
    };
    std::vector<std::thread> ranks;
    for (const int rank : {house, house + kHouses}) {
      ranks.emplace_back([&, rank] {
        tuttiComm_t comm = nullptr;
        ASSERT_EQ(tuttiCommInitRank(&comm, 2 * kHouses, id, rank), tuttiSuccess) << tuttiGetLastError(nullptr);
        shrink_twice(comm, rank, meet);
      });
    }
    for (std::thread& rank : ranks) rank.join();
    EXPECT_EQ(tuttiCommDestroy(first), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  processes.expect_success();
}

INSTANTIATE_TEST_SUITE_P(Over, ShrinkHouses, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tutti::test
