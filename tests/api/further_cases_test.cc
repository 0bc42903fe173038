// The cases beyond the first six collectives, with ranks as threads and as processes: over every transport, in many
// small tiles, deterministic, with a narrow wire type; and thousands of groups of random calls.
// Covers comm/api/api_collectives.cc, comm/api/api_transfers.cc, comm/queue/call_group.cc, executor/step_work.cc.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "cases/collective_cases.h"
#include "cases/effort_of.h"
#include "support/ranks.h"

namespace tutti::test {
namespace {

using Suite = cases::Outcome (*)(tuttiComm_t comm, int rank, int ranks, cases::Effort effort);

void leave(tuttiComm_t comm, const cases::Outcome& outcome) {
  EXPECT_GT(outcome.checked, 0);
  EXPECT_EQ(outcome.failed, 0) << "of " << outcome.checked;
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
}

using cases::effort_of;
using cases::effort_with;
using cases::sample_of;

void run_suite(Suite suite, int ranks, cases::Effort effort, const tuttiConfig_t* config = nullptr) {
  run_threads(
      ranks, [&](tuttiComm_t comm, int rank) { leave(comm, suite(comm, rank, ranks, effort)); }, config);
}

/// All cases over shared memory; short runs take a sample over the reference transport, which users never meet.
cases::Effort effort_over(const std::string& transport, cases::Effort usual) {
  return transport == "shm" ? effort_of(usual) : sample_of(usual);
}

cases::Outcome run_truths_and_groups(tuttiComm_t comm, int rank, int ranks, cases::Effort effort) {
  return cases::run_truth_cases(comm, rank, ranks) + cases::run_group_cases(comm, rank, ranks, effort, 100, 3);
}

struct Named {
  const char* name;
  Suite suite;
};
constexpr Named kSuites[] = {{"Exchanges", cases::run_exchange_cases},
                             {"Operations", cases::run_operation_cases},
                             {"Messages", cases::run_message_cases},
                             {"Groups", run_truths_and_groups}};

class Family : public ::testing::TestWithParam<std::tuple<Named, const char*, int>> {};

TEST_P(Family, IsExact) {
  const auto& [named, transport, ranks] = GetParam();
  const ScopedSetting setting("TUTTI_TRANSPORT", transport);
  run_suite(named.suite, ranks, effort_over(transport, ranks <= 3 ? cases::Effort::kLarge : cases::Effort::kUsual));
}

// Wrap-around, uneven parts and empty chunks: many passes of small messages.
TEST_P(Family, IsExactInManyTiles) {
  const auto& [named, transport, ranks] = GetParam();
  const ScopedSetting setting("TUTTI_TRANSPORT", transport);
  const ScopedSetting tile("TUTTI_TILE_BYTES", "3K");
  const ScopedSetting slot("TUTTI_SHM_SLOT_BYTES", "8K");
  const ScopedSetting slots("TUTTI_SHM_SLOTS", "2");
  run_suite(named.suite, ranks, sample_of(cases::Effort::kFew));
}

INSTANTIATE_TEST_SUITE_P(All, Family,
                         ::testing::Combine(::testing::ValuesIn(kSuites), ::testing::Values("shm", "inproc"),
                                            ::testing::Values(1, 2, 3, 5, 8)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param) + "_" +
                                  std::to_string(std::get<2>(info.param));
                         });

// The cases' results are exact in any order of additions, and in the 16-bit wire types.
TEST(FamilyModes, DeterministicIsExact) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.deterministic = 1;
  for (const int ranks : {1, 2, 3, 5}) {
    run_suite(cases::run_collective_cases, ranks, sample_of(cases::Effort::kFew), &config);
    run_suite(cases::run_operation_cases, ranks, sample_of(cases::Effort::kFew), &config);
    run_suite(run_truths_and_groups, ranks, sample_of(cases::Effort::kFew), &config);
  }
}

TEST(FamilyModes, WireTypesAreExactWhereTheValuesAre) {
  for (const tuttiDataType_t wire : {tuttiFloat16, tuttiBfloat16}) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.wireType = wire;
    for (const int ranks : {1, 2, 3, 5}) {
      run_suite(cases::run_collective_cases, ranks, sample_of(cases::Effort::kFew), &config);
      run_suite(run_truths_and_groups, ranks, sample_of(cases::Effort::kFew), &config);
    }
  }
}

TEST(FamilyGroups, ManyRandomOnes) {
  const int rounds = kSanitized ? 500 : covers_all() ? 10'000 : 2'000;
  constexpr int kRanks = 3;
  run_threads(kRanks, [&](tuttiComm_t comm, int rank) {
    leave(comm, cases::run_group_cases(comm, rank, kRanks, effort_of(cases::Effort::kUsual), rounds, 17));
  });
}

class ProcessFamily : public ::testing::TestWithParam<int> {};

TEST_P(ProcessFamily, IsExact) {
  const int ranks = GetParam();
  Processes processes(ranks, [&](tuttiComm_t comm, int rank, Shared&) {
    cases::Outcome outcome;
    for (const Named& named : kSuites) {
      if (outcome.failed == 0)
        outcome = outcome + named.suite(comm, rank, ranks, effort_with(ranks, cases::Effort::kUsual));
    }
    leave(comm, outcome);
  });
  for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
}
INSTANTIATE_TEST_SUITE_P(Ranks, ProcessFamily, ::testing::ValuesIn(cases::process_counts({1, 2, 3, 5, 8})));

}  // namespace
}  // namespace tutti::test
