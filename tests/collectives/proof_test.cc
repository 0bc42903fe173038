// Covers collectives/*.h, the generators.
// Every algorithm of the catalogue (for hierarchical ones see hierarchical_proof_test.cc) is proved, in the tables that
// run: every n in 1..256 (short runs: 1..64), every root up to 32 ranks, out of place, in place, and with ranks that
// differ in it.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "collectives/choice/catalogue.h"
#include "schedule/effort.h"
#include "schedule/prover.h"
#include "schedule/tables.h"

namespace tutti {
namespace {

class Proof : public testing::TestWithParam<Algorithm> {
 protected:
  static std::vector<std::int32_t> roots(std::int32_t n) {
    const bool long_programs = GetParam().name == std::string_view("scatter_all_gather");  // n steps, not log n
    if (long_programs && n > 32) return {n / 3};
    return is_rooted(GetParam().collective) ? proved_roots(n) : std::vector<std::int32_t>{0};
  }

  /// Proves the tables of one shape in all three variants of "in place".
  void prove_tables(const Shape& shape) {
    build_tables(shape);
    for (const Aliasing aliasing : {Aliasing::kNone, Aliasing::kAll, Aliasing::kMixed}) {
      const auto fault = prover_.find_fault(Program(tables_), ProofOptions{aliasing, 2, true});
      ASSERT_FALSE(fault) << "root " << shape.root << ", " << shape.lanes << " lanes: " << fault->text;
    }
  }

  void prove_fingerprints(const Shape& shape) {
    const auto fault = prover_.find_fault(Program(GetParam(), shape), ProofOptions{Aliasing::kNone, 2, false});
    ASSERT_FALSE(fault) << "root " << shape.root << ": " << fault->text;
  }

  /// Whether one message of credit a link is enough.
  bool runs_with_one_credit(const Shape& shape) {
    build_tables(shape);
    return !prover_.find_fault(Program(tables_), ProofOptions{Aliasing::kNone, 1, true});
  }

 private:
  void build_tables(const Shape& shape) {
    tables_.clear();
    for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
      tables_.push_back(build_schedule(GetParam(), Shape{shape.ranks, rank, shape.root, shape.lanes}));
    }
  }

  std::vector<Schedule> tables_;
  Prover prover_;
};

TEST_P(Proof, ExactForEveryRankCountAndRoot) {
  for (const std::int32_t n : proved_ranks()) {
    for (const std::int32_t root : roots(n)) {
      ASSERT_NO_FATAL_FAILURE(prove_tables(Shape{n, 0, root, 1}));
    }
  }
}

TEST_P(Proof, ExactWithSeveralLanes) {
  for (const std::int32_t lanes : {2, 3, 8}) {
    if (lanes > GetParam().max_lanes) continue;
    for (std::int32_t n = 1; n <= (kReduced ? 9 : 40); ++n) {
      for (const std::int32_t root : roots(n)) {
        ASSERT_NO_FATAL_FAILURE(prove_tables(Shape{n, 0, root, lanes}));
      }
    }
  }
}

/// Only the fused rings need two: all ranks would wait for a free slot at once.
TEST_P(Proof, OneCreditIsEnoughButForRings) {
  for (const std::int32_t n : {1, 2, 3, 4, 5, 8, 13, 33, 130}) {
    const bool all_reduce = GetParam().collective == Collective::kAllReduce;
    const bool stops = GetParam().name == std::string_view("ring") && n >= (all_reduce ? 2 : 3);
    for (const std::int32_t root : roots(n)) EXPECT_EQ(runs_with_one_credit(Shape{n, 0, root, 1}), !stops) << n;
  }
}

/// To 4096 ranks, but where every pair has its own link: the prover's n^2 links would fill gigabytes, so these end at
/// 2048, and pairwise and scatter-all-gather ones, which also take long, and all-to-alls, which also move n^2 blocks,
/// at 1024.
TEST_P(Proof, FingerprintsForManyRanks) {
  const std::string_view name = GetParam().name;
  const bool exchanges =
      GetParam().collective == Collective::kAllToAll || name == "pairwise" || name == "scatter_all_gather";
  const bool scatters = GetParam().collective == Collective::kReduceScatter;
  const bool pair_links = name == "all_pairs_two_shot" || (name == "all_pairs" && scatters);
  const bool rooted = is_rooted(GetParam().collective);
  const bool few = kReduced || !test::covers_all();
  const std::int32_t most = few ? 300 : exchanges ? 1024 : pair_links ? 2048 : 4096;
  for (const std::int32_t n : {257, 1000, most}) {
    if (n > most) continue;
    ASSERT_NO_FATAL_FAILURE(prove_fingerprints(Shape{n, 0, 0, 1}));
    if (rooted) {
      ASSERT_NO_FATAL_FAILURE(prove_fingerprints(Shape{n, 0, n / 3, 1}));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, Proof, testing::ValuesIn(flat_algorithms()),
                         [](const testing::TestParamInfo<Algorithm>& info) {
                           return std::string(name_of(info.param.collective)) + "_" + info.param.name;
                         });

}  // namespace
}  // namespace tutti
