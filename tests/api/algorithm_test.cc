// Algorithms that only TUTTI_ALGO takes: every case of the collectives that have them, over every transport, for ranks
// on both sides of powers of two; results are exact for all types and operations, in place and not, aligned and not.
// Covers executor/step_work.cc, comm/communicator_information.cc.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "cases/collective_cases.h"
#include "cases/effort_of.h"
#include "collectives/choice/catalogue.h"
#include "support/depth.h"
#include "support/ranks.h"

namespace tutti::test {
namespace {

constexpr const char* kNames[] = {"recursive_doubling",
                                  "halving_doubling",
                                  "double_tree",
                                  "pairwise",
                                  "bruck",
                                  "pat",
                                  "recursive_halving",
                                  "tree",
                                  "knomial_4",
                                  "scatter_all_gather",
                                  "knomial_8",
                                  "recursive_exchange",
                                  "scatter_exchange_2",
                                  "hierarchical_2",
                                  "hierarchical_double_tree",
                                  "hierarchical_knomial_4",
                                  "hierarchical_knomial_8",
                                  "hierarchical_rounds"};

bool offers(Collective collective, const char* name) { return find_algorithm(collective, name) != nullptr; }

/// The communicator says that it runs the algorithm, for every collective that has it.
void expect_named(tuttiComm_t comm, Collective collective, const char* name) {
  const std::string key = std::string("algorithm:") + name_of(collective) + ":4096";
  char text[64] = "";
  EXPECT_EQ(tuttiCommGetInfo(comm, key.c_str(), text, sizeof text), tuttiSuccess);
  EXPECT_STREQ(text, name) << key;
}

/// The cases of the kinds that the algorithm has.
void run_cases(tuttiComm_t comm, int rank, int ranks, const char* name, cases::Effort effort) {
  bool exchanges = false;
  bool others = false;
  for (int i = 1; i < kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    const bool exchange = collective == Collective::kGather || collective == Collective::kScatter ||
                          collective == Collective::kAllToAll || collective == Collective::kAllGather;
    if (offers(collective, name)) expect_named(comm, collective, name);
    exchanges = exchanges || (exchange && offers(collective, name));
    others = others || (!exchange && offers(collective, name)) || offers(Collective::kAllGather, name);
  }
  ASSERT_TRUE(exchanges || others);
  cases::Outcome outcome;
  if (others) outcome = cases::run_collective_cases(comm, rank, ranks, effort);
  EXPECT_EQ(outcome.failed, 0) << name << ", " << ranks << " ranks, of " << outcome.checked;
  if (exchanges) outcome = cases::run_exchange_cases(comm, rank, ranks, effort);
  EXPECT_EQ(outcome.failed, 0) << name << ", " << ranks << " ranks, of " << outcome.checked;
  EXPECT_GT(outcome.checked, 0);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
}

class ByAlgorithm : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  static bool over_shm() { return std::get<1>(GetParam()) == std::string("shm"); }

  void run(int ranks, cases::Effort usual, const tuttiConfig_t* config = nullptr) {
    const cases::Effort effort = cases::sample_of(usual);
    const char* const name = std::get<0>(GetParam());
    const ScopedSetting transport("TUTTI_TRANSPORT", std::get<1>(GetParam()));
    const ScopedSetting algorithm("TUTTI_ALGO", name);
    const ScopedSetting quiet("TUTTI_LOG", "error");
    run_threads(
        ranks, [&](tuttiComm_t comm, int rank) { run_cases(comm, rank, ranks, name, effort); }, config);
  }
};

TEST_P(ByAlgorithm, IsExact) {
  // All types for some numbers of ranks, a few types for the others: types do not meet the schedule.
  run(3, cases::Effort::kLarge);
  run(5, over_shm() ? cases::Effort::kUsual : cases::Effort::kFew);
  if (kSanitized) return;
  for (const int ranks : {1, 2, 4, 8}) run(ranks, cases::Effort::kFew);
}

/// Small slots and tiles: many passes of small messages, uneven parts and empty chunks.
TEST_P(ByAlgorithm, IsExactInManyTiles) {
  const ScopedSetting tile("TUTTI_TILE_BYTES", "1K");
  const ScopedSetting slot("TUTTI_SHM_SLOT_BYTES", "8K");
  const ScopedSetting slots("TUTTI_SHM_SLOTS", "2");
  run(3, cases::Effort::kFew);
  for (const int ranks : {2, 5, 7}) {
    if (over_shm() && !(kSanitized && ranks == 7)) run(ranks, cases::Effort::kFew);
  }
}

/// What is kept between steps is of the messages' type, not of the buffers'.
TEST_P(ByAlgorithm, IsExactWithAWireType) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.wireType = tuttiBfloat16;
  run(5, cases::Effort::kFew, &config);
}

/// Users never meet the reference transport, whose own cases are in the short run.
std::vector<const char*> transports_by_name() {
  if (covers_all()) return {"shm", "inproc", "tcp"};
  return {"shm", "tcp"};
}
INSTANTIATE_TEST_SUITE_P(Names, ByAlgorithm,
                         ::testing::Combine(::testing::ValuesIn(kNames), ::testing::ValuesIn(transports_by_name())),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param);
                         });

/// Groups that meet in two rounds, of which the first one's messages have several parts, and guests: as the buffers
/// are, and as another type travels.
void expect_exact_sums(int ranks, std::size_t count, const char* name, const tuttiConfig_t& config) {
  run_threads(
      ranks,
      [&](tuttiComm_t comm, int rank) {
        const auto value = [](std::size_t i, int of) {
          return static_cast<float>((i + static_cast<std::size_t>(of)) % 5);
        };
        std::vector<float> data(count), sum(count);
        for (std::size_t i = 0; i < count; ++i) data[i] = value(i, rank);
        EXPECT_EQ(tuttiAllReduce(data.data(), sum.data(), count, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
        for (std::size_t i = 0; i < count; ++i) {
          float expected = 0;
          for (int r = 0; r < ranks; ++r) expected += value(i, r);
          ASSERT_EQ(sum[i], expected) << name << ", " << ranks << " ranks, element " << i;
        }
        expect_named(comm, Collective::kAllReduce, name);
        EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
      },
      &config);
}

TEST(Exchanges, AreExactInSeveralRounds) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting transport("TUTTI_TRANSPORT", "inproc");
  std::vector<const char*> names{"scatter_exchange_2"};  // it sums, scatters and sends pieces
  if (!kSanitized) names.insert(names.end(), {"recursive_exchange", "scatter_exchange_1", "scatter_exchange_3"});
  for (const char* name : names) {
    const ScopedSetting algorithm("TUTTI_ALGO", name);
    for (const tuttiDataType_t wire : {tuttiFloat32, tuttiBfloat16}) {
      tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
      config.wireType = wire;
      for (const int ranks : {8, 11}) {
        expect_exact_sums(ranks, 8 * 4096 * 3 + 5, name, config);
        const ScopedSetting tiles("TUTTI_TILE_BYTES", "3K");
        expect_exact_sums(ranks, 4001, name, config);
      }
    }
  }
}

/// More ranks than a group of PAT or a small message of 64-byte chunks may have: only what these do besides.
TEST(ManyRanks, AreExact) {
  constexpr int kRanks = 67;
  const ScopedSetting quiet("TUTTI_LOG", "error");
  for (const char* name : {"pat", "bruck"}) {
    const ScopedSetting algorithm("TUTTI_ALGO", name);
    const ScopedSetting transport("TUTTI_TRANSPORT", "inproc");
    run_threads(kRanks, [&](tuttiComm_t comm, int rank) {
      constexpr std::size_t kCount = 301;
      const auto n = static_cast<std::size_t>(kRanks);
      const auto me = static_cast<std::uint64_t>(rank);
      std::vector<std::uint64_t> blocks(n * kCount), all(n * kCount), own(kCount);
      for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = me * 1'000'003 + i;
      EXPECT_EQ(tuttiReduceScatter(blocks.data(), own.data(), kCount, tuttiUint64, tuttiSum, comm, nullptr),
                tuttiSuccess);
      for (std::size_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(own[i], n * (n - 1) / 2 * 1'000'003 + n * (me * kCount + i)) << name << ", rank " << rank;
      }
      EXPECT_EQ(tuttiAllGather(blocks.data(), all.data(), kCount, tuttiUint64, comm, nullptr), tuttiSuccess);
      for (std::size_t i = 0; i < all.size(); ++i) {
        ASSERT_EQ(all[i], i / kCount * 1'000'003 + i % kCount) << name << ", rank " << rank;
      }
      EXPECT_EQ(tuttiAllToAll(blocks.data(), all.data(), kCount, tuttiUint64, comm, nullptr), tuttiSuccess);
      for (std::size_t i = 0; i < all.size(); ++i) {
        ASSERT_EQ(all[i], i / kCount * 1'000'003 + me * kCount + i % kCount) << name << ", rank " << rank;
      }
      EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
    });
  }
}

}  // namespace
}  // namespace tutti::test
