// The six collectives through the C API with ranks as threads, over every transport and every algorithm by name.
// Covers comm/api/api_collectives.cc, executor/cpu_executor.cc, executor/step_work.cc.
#include "cases/collective_cases.h"
#include "cases/effort_of.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "support/ranks.h"

namespace tutti::test {
namespace {

void run_cases(int ranks, cases::Effort effort) {
  run_threads(ranks, [&](tuttiComm_t comm, int rank) {
    const cases::Outcome outcome = cases::run_collective_cases(comm, rank, ranks, effort);
    EXPECT_GT(outcome.checked, 0);
    EXPECT_EQ(outcome.failed, 0) << "of " << outcome.checked;
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

class Collectives : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(Collectives, AreExact) {
  const auto [transport, ranks] = GetParam();
  const ScopedSetting setting("TUTTI_TRANSPORT", transport);
  const cases::Effort usual = ranks <= 3 ? cases::Effort::kLarge : cases::Effort::kUsual;
  // Users never meet the reference transport: short runs take a sample over it.
  run_cases(ranks, transport == std::string("shm") ? cases::effort_of(usual) : cases::sample_of(usual));
}
INSTANTIATE_TEST_SUITE_P(Transports, Collectives,
                         ::testing::Combine(::testing::Values("shm", "inproc"), ::testing::Values(1, 2, 3, 4, 5, 8)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" + std::to_string(std::get<1>(info.param));
                         });

class Algorithms : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

// Small slots and tiles make many passes of small messages: wrap-around, uneven parts and empty chunks in every
// algorithm.
TEST_P(Algorithms, AreExactInManyTiles) {
  const auto [algorithm, ranks] = GetParam();
  const ScopedSetting name("TUTTI_ALGO", algorithm);
  const ScopedSetting tile("TUTTI_TILE_BYTES", "3K");
  const ScopedSetting slot("TUTTI_SHM_SLOT_BYTES", "8K");
  const ScopedSetting slots("TUTTI_SHM_SLOTS", "2");
  const ScopedSetting quiet("TUTTI_LOG", "error");
  run_cases(ranks, cases::sample_of(cases::Effort::kFew));
}
INSTANTIATE_TEST_SUITE_P(ByName, Algorithms,
                         ::testing::Combine(::testing::Values("ring", "all_pairs", "all_pairs_two_shot", "linear",
                                                              "recursive_doubling", "chain", "tree", "dissemination"),
                                            ::testing::Values(2, 3, 5)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" + std::to_string(std::get<1>(info.param));
                         });

// Bits, not values: sums that round differently in another order must still agree on all ranks.
TEST(Collectives, ResultsAreBitwiseEqualOnAllRanks) {
  constexpr int kRanks = 5;
  constexpr std::size_t kCount = 40'001;
  for (const char* algorithm :
       {"all_pairs", "all_pairs_two_shot", "linear", "ring", "recursive_doubling", "halving_doubling", "double_tree"}) {
    const ScopedSetting name("TUTTI_ALGO", algorithm);
    std::vector<std::vector<float>> results(kRanks, std::vector<float>(kCount));
    run_threads(kRanks, [&](tuttiComm_t comm, int rank) {
      std::vector<float> mine(kCount);
      for (std::size_t i = 0; i < kCount; ++i)
        mine[i] = 1.0f / static_cast<float>(i % 977 + 3 + static_cast<std::size_t>(rank) * 31) - 0.01f;
      mine[7] = rank == 2 ? __builtin_inff() : 1.0f;
      mine[8] = rank == 3 ? __builtin_nanf("") : 1.0f;
      mine[9] = -0.0f;
      float* const out = results[static_cast<std::size_t>(rank)].data();
      EXPECT_EQ(tuttiAllReduce(mine.data(), out, kCount, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
      EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
    });
    for (int rank = 1; rank < kRanks; ++rank)
      EXPECT_EQ(std::memcmp(results[0].data(), results[static_cast<std::size_t>(rank)].data(), kCount * 4), 0)
          << algorithm << ", rank " << rank;
    EXPECT_EQ(results[0][7], __builtin_inff());
    EXPECT_NE(results[0][8], results[0][8]);
    EXPECT_TRUE(std::signbit(results[0][9]));
  }
}

}  // namespace
}  // namespace tutti::test
