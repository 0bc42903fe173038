// Runs a function as n ranks of one communicator: as threads of this process, or as forked processes.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "support/await.h"
#include "support/meeting_id.h"
#include "support/rank_processes.h"
#include "support/scoped_setting.h"
#include "support/settle_threads.h"
#include "support/shared_memory.h"

namespace tutti::test {

/// What a rank does; it owns the communicator from then on, and destroys or aborts it.
using RankBody = std::function<void(tuttiComm_t comm, int rank)>;

inline void run_threads(int ranks, const RankBody& body, const tuttiConfig_t* config = nullptr) {
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess) << tuttiGetLastError(nullptr);
  // What a body does to the communicator would fail the join of a rank that has not quite left it.
  std::latch joined(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      tuttiComm_t comm = nullptr;
      EXPECT_EQ(tuttiCommInitRankConfig(&comm, ranks, id, rank, config), tuttiSuccess) << tuttiGetLastError(nullptr);
      joined.arrive_and_wait();
      if (comm != nullptr) body(comm, rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// What the test and its forked ranks share.
struct Shared {
  static constexpr int kMaxRanks = 192;
  MeetingId id;
  std::atomic<int> step[kMaxRanks] = {};  ///< for the test's own choreography
  std::atomic<int> result[kMaxRanks];     ///< a tuttiResult_t, or -1
  std::atomic<long> microseconds[kMaxRanks] = {};
  std::atomic<long> second_here[kMaxRanks] =
      {};  ///< microseconds that a promise of one may take, by the rank's yardstick
  char text[kMaxRanks][600] = {};

  Shared() {
    for (auto& one : result) one.store(-1);
  }
  void report(int rank, tuttiResult_t code, const char* message) {
    std::strncpy(text[rank], message, sizeof text[rank] - 1);
    result[rank].store(code);
  }
  /// Not for ever: a rank whose join has failed takes no step.
  void wait_for_step(int rank, int value) const {
    await([&] { return step[rank].load() >= value || result[rank].load() > 0; },
          "step " + std::to_string(value) + " of rank " + std::to_string(rank));
    EXPECT_GE(step[rank].load(), value) << "rank " << rank << " does not get there: " << text[rank];
  }
};

using ProcessBody = std::function<void(tuttiComm_t comm, int rank, Shared& shared)>;

/// Ranks as processes. They are forked from here, where no communicator may be alive. A rank ends with exit code 0 when
/// its body returned and no expectation failed in it.
class Processes : public RankProcesses {
 public:
  /// `before`: called in each process before it joins.
  Processes(int ranks, const ProcessBody& body, const std::function<void(int rank)>& before = {}) {
    settle_threads();  // a child inherits what was not joined
    for (int rank = 0; rank < ranks; ++rank) {
      start([&, rank] {
        if (before) before(rank);
        run(ranks, rank, body);
      });
    }
  }

  Shared& shared() { return *shared_; }

 private:
  void run(int ranks, int rank, const ProcessBody& body) {
    if (rank == 0) shared_->id.make();
    tuttiComm_t comm = nullptr;
    if (tuttiCommInitRank(&comm, ranks, shared_->id.take(), rank) != tuttiSuccess) {
      shared_->report(rank, tuttiSystemError, tuttiGetLastError(nullptr));
      ::_exit(4);
    }
    body(comm, rank, *shared_);
    settle_threads();
  }

  const SharedMemory<Shared> shared_;
};

}  // namespace tutti::test
