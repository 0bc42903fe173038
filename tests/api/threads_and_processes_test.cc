// Ranks as threads and processes mixed: each process holds several ranks of one communicator.
// Covers comm/membership/host_memory.cc, comm/membership/process_membership_liveness.cc.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "cases/collective_cases.h"
#include "cases/effort_of.h"
#include "support/ranks.h"

namespace tutti::test {
namespace {

TEST(Mixed, ProcessesOfSeveralThreadRanksAreExact) {
  constexpr int kProcesses = 3;
  const int threads[kProcesses] = {2, 1,
                                   2};  // ranks 0 and 3, 1, 2 and 4: neighbours in rank are not neighbours in memory
  constexpr int kRanks = 5;
  const ScopedSetting quiet("TUTTI_LOG", "error");
  Processes processes(kProcesses, [&](tuttiComm_t first, int process, Shared& shared) {
    // The communicator of processes carries the id of the one of ranks.
    tuttiUniqueId id = {};
    if (process == 0) {
      ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
    }
    ASSERT_EQ(tuttiBroadcast(&id, &id, sizeof id, tuttiUint8, 0, first, nullptr), tuttiSuccess);
    std::vector<std::thread> ranks;
    for (int i = 0; i < threads[process]; ++i) {
      ranks.emplace_back([&, rank = process + i * kProcesses - (i > 0 && process == 2 ? 1 : 0)] {
        tuttiComm_t comm = nullptr;
        ASSERT_EQ(tuttiCommInitRank(&comm, kRanks, id, rank), tuttiSuccess) << tuttiGetLastError(nullptr);
        const cases::Outcome outcome =
            cases::run_collective_cases(comm, rank, kRanks, cases::sample_of(cases::Effort::kFew));
        EXPECT_GT(outcome.checked, 0);
        EXPECT_EQ(outcome.failed, 0);
        EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
      });
    }
    for (std::thread& rank : ranks) rank.join();
    shared.report(process, tuttiCommDestroy(first), "");
  });
  for (int process = 0; process < kProcesses; ++process) {
    EXPECT_EQ(processes.wait(process), 0);
    EXPECT_EQ(processes.shared().result[process], tuttiSuccess);
  }
}

// A process that dies takes all its ranks with it; the others name one of them.
TEST(Mixed, TheDeathOfAProcessIsTheDeathOfItsRanks) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  Processes processes(2, [&](tuttiComm_t first, int process, Shared& shared) {
    tuttiUniqueId id = {};
    if (process == 0) {
      ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
    }
    ASSERT_EQ(tuttiBroadcast(&id, &id, sizeof id, tuttiUint8, 0, first, nullptr), tuttiSuccess);
    std::vector<std::thread> ranks;
    for (int i = 0; i < 2; ++i) {
      ranks.emplace_back([&, rank = 2 * process + i] {
        tuttiComm_t comm = nullptr;
        ASSERT_EQ(tuttiCommInitRank(&comm, 4, id, rank), tuttiSuccess);
        float value = 1;
        tuttiResult_t code = tuttiSuccess;
        while (code == tuttiSuccess) {
          code = tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiMax, comm, nullptr);
          shared.step[rank]++;
        }
        shared.report(rank, code, tuttiGetLastError(comm));
        (void)tuttiCommDestroy(comm);
      });
    }
    for (std::thread& rank : ranks) rank.join();
    (void)tuttiCommAbort(first);
  });
  for (int rank = 0; rank < 4; ++rank) processes.shared().wait_for_step(rank, 10);
  processes.signal(1, SIGKILL);
  EXPECT_EQ(processes.wait(0), 0);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(processes.shared().result[rank], tuttiRemoteError) << processes.shared().text[rank];
    const std::string text = processes.shared().text[rank];
    EXPECT_TRUE(text.find("rank 2 ") != std::string::npos || text.find("rank 3 ") != std::string::npos) << text;
  }
}

}  // namespace
}  // namespace tutti::test
