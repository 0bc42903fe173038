// The same collective cases with ranks as processes.
// Covers transport/shm/shm.cc, executor/cpu_executor.cc.
#include <gtest/gtest.h>

#include "cases/collective_cases.h"
#include "cases/effort_of.h"
#include "support/ranks.h"

namespace tutti::test {
namespace {

class ProcessCollectives : public ::testing::TestWithParam<int> {};

TEST_P(ProcessCollectives, AreExact) {
  const int ranks = GetParam();
  const cases::Effort usual = ranks <= 2 ? cases::Effort::kLarge : cases::Effort::kUsual;
  const cases::Effort effort = cases::effort_with(ranks, usual);
  Processes processes(ranks, [&](tuttiComm_t comm, int rank, Shared&) {
    const cases::Outcome outcome = cases::run_collective_cases(comm, rank, ranks, effort);
    EXPECT_GT(outcome.checked, 0);
    EXPECT_EQ(outcome.failed, 0);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
  for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
}
INSTANTIATE_TEST_SUITE_P(Ranks, ProcessCollectives, ::testing::ValuesIn(cases::process_counts({1, 2, 3, 4, 5, 8})));

}  // namespace
}  // namespace tutti::test
