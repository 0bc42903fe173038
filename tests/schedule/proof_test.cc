// Every algorithm of the catalogue is proved, in the tables that run: every n in 1..256, every root up to 32 ranks, out
// of place, in place, and with ranks that differ in it.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "collectives/catalogue.h"
#include "schedule/effort.h"
#include "schedule/prover.h"

namespace tutti {
namespace {

class Proof : public testing::TestWithParam<Algorithm> {
 protected:
  static std::vector<std::int32_t> roots(std::int32_t n) {
    return is_rooted(GetParam().collective) ? proved_roots(n) : std::vector<std::int32_t>{0};
  }

  /// Proves the tables of one shape in all three variants of "in place".
  void prove_tables(const Shape& shape) {
    tables_.clear();
    for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
      tables_.push_back(build_schedule(GetParam(), Shape{shape.ranks, rank, shape.root, shape.lanes}));
    }
    for (const Aliasing aliasing : {Aliasing::kNone, Aliasing::kAll, Aliasing::kMixed}) {
      const auto fault = prover_.find_fault(Program(tables_), ProofOptions{aliasing, 2, true});
      ASSERT_FALSE(fault) << "root " << shape.root << ", " << shape.lanes << " lanes: " << fault->text;
    }
  }

  void prove_fingerprints(const Shape& shape) {
    const auto fault = prover_.find_fault(Program(GetParam(), shape), ProofOptions{Aliasing::kNone, 2, false});
    ASSERT_FALSE(fault) << "root " << shape.root << ": " << fault->text;
  }

 private:
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

/// Algorithms whose messages grow with the square of n go to 1024 ranks (memory of the prover's links and cells), the
/// ring to 2048, the others to 4096.
TEST_P(Proof, FingerprintsForManyRanks) {
  const std::string_view name = GetParam().name;
  const bool rooted = is_rooted(GetParam().collective);
  const bool links = name.starts_with("all_pairs") && !rooted;
  const std::int32_t most = kReduced ? 300 : links ? 1024 : name == "ring" ? 2048 : 4096;
  for (const std::int32_t n : {257, 300, 511, 1000, 1024, 1025, 2048, 3001, 4095, 4096}) {
    if (n > most) continue;
    for (const std::int32_t root : {0, rooted ? n / 3 : 0}) {
      ASSERT_NO_FATAL_FAILURE(prove_fingerprints(Shape{n, 0, root, 1}));
      if (!rooted) break;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, Proof, testing::ValuesIn(catalogue().begin(), catalogue().end()),
                         [](const testing::TestParamInfo<Algorithm>& info) {
                           return std::string(name_of(info.param.collective)) + "_" + info.param.name;
                         });

}  // namespace
}  // namespace tutti
