// A rank that is stopped, at any time, is the one that all others name: whoever does not answer is the culprit, and who
// waits for somebody is not.
// Covers comm/failure/culprit.cc, comm/failure/wait_judge.cc, comm/membership/board_exchange.cc, comm/stream_wait.cc.
#include <gtest/gtest.h>
#include <signal.h>
#include <tutti/tutti.h>

#include <chrono>
#include <deque>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/depth.h"
#include "support/ranks.h"
#include "support/seed.h"
#include "support/texts.h"

namespace tutti::test {
namespace {

struct StopWay {
  const char* name;
  const char* transport;
  const char* tls;
};

/// A job whose ranks make sums until one fails.
class SumJob {
 public:
  SumJob(int ranks, std::size_t count, int victim)
      : ranks_(ranks),
        count_(count),
        victim_(victim),
        processes_(ranks, [count](tuttiComm_t comm, int rank, Shared& shared) { sum(comm, rank, count, shared); }) {}

  void stop_victim_after(std::chrono::microseconds pause) {
    for (int rank = 0; rank < ranks_; ++rank) processes_.shared().wait_for_step(rank, 3);
    std::this_thread::sleep_for(pause);
    stop_process(processes_.pid(victim_));
  }

  void expect_that_all_name_it() {
    const Shared& shared = processes_.shared();
    for (int rank = 0; rank < ranks_; ++rank) {
      if (rank == victim_) continue;
      EXPECT_EQ(processes_.wait(rank), 0) << "rank " << rank;
      EXPECT_EQ(shared.result[rank], tuttiTimeout) << shared.text[rank];
      EXPECT_TRUE(contains(shared.text[rank], "): rank " + std::to_string(victim_) + " "))
          << "rank " << rank << " of " << ranks_ << ", " << count_ << " floats, rank " << victim_
          << " is stopped: " << shared.text[rank];
    }
  }

 private:
  static void sum(tuttiComm_t comm, int rank, std::size_t count, Shared& shared) {
    std::vector<float> values(count, 1.0f);
    tuttiResult_t result = tuttiCommSetTimeout(comm, 2);
    while (result == tuttiSuccess) {
      result = tuttiAllReduce(values.data(), values.data(), count, tuttiFloat32, tuttiMax, comm, nullptr);
      shared.step[rank].fetch_add(1);
    }
    shared.report(rank, result, tuttiGetLastError(comm));
    (void)tuttiCommAbort(comm);
  }

  const int ranks_;
  const std::size_t count_;
  const int victim_;
  Processes processes_;
};

class TimedStops : public ::testing::TestWithParam<StopWay> {
 protected:
  const ScopedSetting quiet_{"TUTTI_LOG", "error"};
  const ScopedSetting transport_{"TUTTI_TRANSPORT", GetParam().transport};
  const ScopedSetting tls_{"TUTTI_TLS", GetParam().tls};
};

// Jobs wait for their deadline side by side; until its stop each has the machine alone.
TEST_P(TimedStops, NameWhoeverDoesNotAnswer) {
  constexpr int kSideBySide = kSanitized ? 4 : 10;
  SCOPED_TRACE(seed_text());
  std::mt19937 random(test_seed());
  for (int left = covers_all() ? 200 : kSideBySide; left > 0; left -= kSideBySide) {
    std::deque<SumJob> jobs;
    for (int job = 0; job < kSideBySide; ++job) {
      const std::size_t counts[] = {1, 1000, 20'000, 262'144};
      const int ranks = 3 + static_cast<int>(random() % 3);
      jobs.emplace_back(ranks, counts[random() % 4], static_cast<int>(random() % static_cast<unsigned>(ranks)));
      jobs.back().stop_victim_after(std::chrono::microseconds(random() % 20'000));
    }
    for (SumJob& job : jobs) job.expect_that_all_name_it();
  }
}

// A rank that is stopped while it waits finds the message and its sender's abort, which came after it, together.
TEST_P(TimedStops, DoNotLoseWhatCameBeforeAnAbort) {
  constexpr int kAsleep = 1, kSent = 1, kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    Processes processes(2, [](tuttiComm_t comm, int rank, Shared& shared) {
      EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess) << tuttiGetLastError(comm);  // now they are connected
      int value = rank;
      if (rank == 0) ++shared.step[0];
      if (rank == 1) shared.wait_for_step(1, kAsleep);
      const tuttiResult_t result = tuttiBroadcast(&value, &value, 1, tuttiInt32, 1, comm, nullptr);
      shared.report(rank, result, tuttiGetLastError(comm));
      EXPECT_EQ(value, 1);
      EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
      shared.step[rank] += kSent;
    });
    Shared& shared = processes.shared();
    shared.wait_for_step(0, 1);
    const std::string waiting = "/proc/" + std::to_string(processes.pid(0));
    await([&] { return state_of(waiting) == 'S'; }, "the sleep of rank 0 in its wait");
    stop_process(processes.pid(0));
    shared.step[1] = kAsleep;
    shared.wait_for_step(1, kAsleep + kSent);
    processes.signal(0, SIGCONT);
    processes.expect_success();
    EXPECT_EQ(shared.result[0], tuttiSuccess) << shared.text[0];
  }
}

// All ranks but the last call on a stream, and wait for that in a call that blocks; then they are stopped until all
// their time is over. The thread that runs the calls gets its chance before it counts as held up.
TEST(TimedStopsOfStreams, OfAllWhoWaitForTheirStreamsIsNoCallback) {
  constexpr int kRanks = 8;
  constexpr int kTimeout = kSanitized ? 3 : 1;  // seconds; that thread may need as many on a busy machine
  Processes processes(kRanks, [](tuttiComm_t comm, int rank, Shared& shared) {
    int value = rank;
    tuttiStream_t stream = nullptr;
    EXPECT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    // The first call takes longest, because it chooses the algorithm.
    EXPECT_EQ(tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiSum, comm, stream), tuttiSuccess);
    EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess) << tuttiGetLastError(comm);
    EXPECT_EQ(tuttiCommSetTimeout(comm, kTimeout), tuttiSuccess);
    ++shared.step[rank];
    tuttiResult_t result = tuttiSuccess;
    if (rank == kRanks - 1) {
      shared.wait_for_step(rank, 2);
    } else if (tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiSum, comm, stream) == tuttiSuccess) {
      result = tuttiBarrier(comm, nullptr);
    }
    shared.report(rank, result, tuttiGetLastError(comm));
    EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
  });
  Shared& shared = processes.shared();
  for (int rank = 0; rank < kRanks; ++rank) shared.wait_for_step(rank, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  for (int rank = 0; rank < kRanks - 1; ++rank) stop_process(processes.pid(rank));
  std::this_thread::sleep_for(std::chrono::milliseconds(kTimeout * 1000 + 1500));
  for (int rank = 0; rank < kRanks - 1; ++rank) processes.signal(rank, SIGCONT);
  for (int rank = 0; rank < kRanks - 1; ++rank) EXPECT_EQ(processes.wait(rank), 0);
  ++shared.step[kRanks - 1];
  EXPECT_EQ(processes.wait(kRanks - 1), 0);
  for (int rank = 0; rank < kRanks - 1; ++rank) {
    EXPECT_NE(shared.result[rank], tuttiSuccess);
    EXPECT_FALSE(contains(shared.text[rank], "a callback")) << shared.text[rank];
  }
}

INSTANTIATE_TEST_SUITE_P(Over, TimedStops,
                         ::testing::Values(StopWay{"shm", "shm", "off"}, StopWay{"tcp", "tcp", "off"},
                                           StopWay{"tls", "tcp", "on"}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tutti::test
