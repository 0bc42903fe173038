// Ranks of a communicator and newcomers, for tests of tuttiCommGrow.
#pragma once

#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <atomic>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "comm/membership/hub.h"
#include "support/patience.h"
#include "support/shrunk.h"

namespace tutti::test {

/// A rank's part in a grow; the one that made the id passes it.
inline tuttiResult_t grow_to(int ranks, const tuttiUniqueId* id, tuttiComm_t comm, tuttiComm_t* made,
                             const tuttiConfig_t* config = nullptr) {
  return tuttiCommGrow(comm, ranks, id, -1, made, config);
}

inline tuttiResult_t come_as(int rank, int ranks, const tuttiUniqueId& id, tuttiComm_t* made,
                             const tuttiConfig_t* config = nullptr) {
  return tuttiCommGrow(nullptr, ranks, &id, rank, made, config);
}

inline std::vector<int> numbers_to(int count) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

/// The caller has this rank in it, and it works.
inline void expect_grown(tuttiComm_t made, int rank, int ranks) {
  ASSERT_NE(made, nullptr);
  int count = 0, own = -1;
  EXPECT_EQ(tuttiCommCount(made, &count), tuttiSuccess);
  EXPECT_EQ(count, ranks);
  EXPECT_EQ(tuttiCommUserRank(made, &own), tuttiSuccess);
  EXPECT_EQ(own, rank);
  expect_sum(made, rank, numbers_to(ranks));
}

inline void expect_destroyed(tuttiComm_t comm) { EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << last_error(); }

/// The call failed so, with these words, and made nothing.
inline void expect_not_grown(tuttiResult_t result, tuttiResult_t expected, const std::string& words, tuttiComm_t made,
                             tuttiComm_t comm = nullptr) {
  EXPECT_EQ(result, expected) << last_error(comm);
  EXPECT_TRUE(contains(last_error(comm), words)) << last_error(comm);
  EXPECT_EQ(made, nullptr);
}

/// No communicator: what a call that fails has to replace by NULL.
inline tuttiComm_t no_communicator() {
  static int nothing = 0;
  return reinterpret_cast<tuttiComm_t>(&nothing);
}

/// The rank's part in a grow that fails so, after which the old communicator works.
inline void expect_refused(tuttiResult_t expected, const std::string& words, int ranks, const tuttiUniqueId* id,
                           tuttiComm_t comm, int rank, const tuttiConfig_t* config = nullptr) {
  tuttiComm_t made = no_communicator();
  const tuttiResult_t result = grow_to(ranks, id, comm, &made, config);
  expect_not_grown(result, expected, words, made, comm);
  int count = 0;
  EXPECT_EQ(tuttiCommCount(comm, &count), tuttiSuccess);
  expect_sum(comm, rank, numbers_to(count));
}

/// A newcomer hears that it cannot join.
inline void expect_turned_away(tuttiResult_t expected, const std::string& words, int rank, int ranks,
                               const tuttiUniqueId& id, const tuttiConfig_t* config = nullptr) {
  tuttiComm_t made = no_communicator();
  const tuttiResult_t result = come_as(rank, ranks, id, &made, config);
  expect_not_grown(result, expected, words, made);
}

/// What a newcomer does; it has no communicator yet.
using NewcomerBody = std::function<void(int newcomer)>;

class GrowTest : public ShrinkTest {
 protected:
  static constexpr int kMostIds = 4;

  /// The ranks of a communicator and, beside them, newcomers that count from 0.
  void run_with_newcomers(int ranks, int newcomers, const RankBody& body, const NewcomerBody& main) {
    newcomers_ = newcomers;
    const auto newcomer = [&](int number) {
      main(number);
      ++ids_->newcomers_ended;
      if (GetParam().processes) settle_threads();
    };
    if (GetParam().processes) {
      EXPECT_TRUE(wait_for_no_hub(kPatience)) << "an earlier case left ids";
      Processes processes(ranks, [&](tuttiComm_t comm, int rank, Shared&) { body(comm, rank); });
      for (int i = 0; i < newcomers; ++i) processes.start([&, i] { newcomer(i); });
      processes.expect_success();
      return;
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < newcomers; ++i) threads.emplace_back([&, i] { newcomer(i); });
    run_threads(ranks, body);
    for (std::thread& thread : threads) thread.join();
  }

  /// Until all newcomers have ended. Who serves an id waits for that, or one that comes late would hear of nothing.
  void await_newcomers() {
    await([&] { return ids_->newcomers_ended == newcomers_; }, "the end of the newcomers");
  }

  /// One rank makes an id, which newcomers take; `place` tells several ids apart.
  tuttiUniqueId make_id(tuttiComm_t comm, int place = 0) {
    tuttiUniqueId id{};
    EXPECT_EQ(tuttiCommGetUniqueId(comm, &id), tuttiSuccess) << last_error(comm);
    publish(id, place);
    return id;
  }
  void publish(const tuttiUniqueId& id, int place = 0) {
    ids_->ids[place] = id;
    ids_->is_made[place] = true;
  }
  tuttiUniqueId take_id(int place = 0) {
    await([&] { return ids_->is_made[place].load(); }, "an id");
    return ids_->ids[place];
  }

 private:
  struct Ids {
    std::atomic<bool> is_made[kMostIds] = {};
    tuttiUniqueId ids[kMostIds] = {};
    std::atomic<int> newcomers_ended{0};
  };
  int newcomers_ = 0;
  const SharedMemory<Ids> ids_;
};

}  // namespace tutti::test
