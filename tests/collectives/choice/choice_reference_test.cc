// Covers collectives/choice/choice.cc.
// Which schedules may send by reference: what is_reference_safe says is proved.
#include <gtest/gtest.h>

#include <string>

#include "collectives/choice/choice.h"
#include "schedule/effort.h"
#include "schedule/tables.h"

namespace tutti {
namespace {

class Reference : public testing::TestWithParam<Algorithm> {
 protected:
  static std::vector<std::int32_t> roots(std::int32_t n) {
    if (!is_rooted(GetParam().collective)) return {0};
    return n <= 12 ? proved_roots(n) : std::vector<std::int32_t>{0, n / 2};
  }

  std::optional<Fault> find_fault(std::int32_t n, bool in_place, std::int32_t lanes) {
    const ProofOptions options{in_place ? Aliasing::kAll : Aliasing::kNone, 2, true, true};
    for (const std::int32_t root : roots(n)) {
      const Tables tables = tables_of(GetParam(), Shape{n, 0, root, lanes});
      if (auto fault = prover_.find_fault(Program(tables), options)) return fault;
    }
    return std::nullopt;
  }

  Prover prover_;
};

/// In place, chunks share more memory and nothing else differs, so what is safe there is safe apart.
TEST_P(Reference, SafeForEveryRankCount) {
  const bool in_place = is_reference_safe(GetParam(), true);
  if (!is_reference_safe(GetParam(), in_place)) GTEST_SKIP() << "not said to be safe";
  for (const std::int32_t n : proved_ranks()) {
    const auto fault = find_fault(n, in_place, 1);
    ASSERT_FALSE(fault) << fault->text;
  }
  for (std::int32_t n = 1; n <= 24 && GetParam().max_lanes > 1; ++n) {
    const auto fault = find_fault(n, in_place, 2);
    ASSERT_FALSE(fault) << fault->text;
  }
}

TEST_P(Reference, UnsafeWhereItSaysSo) {
  for (const bool in_place : {false, true}) {
    const auto fault = find_fault(3, in_place, 1);
    EXPECT_EQ(is_reference_safe(GetParam(), in_place), !fault);
    if (fault) {
      EXPECT_EQ(fault->check, Check::kReference) << fault->text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, Reference, testing::ValuesIn(flat_algorithms()),
                         [](const testing::TestParamInfo<Algorithm>& info) {
                           return std::string(name_of(info.param.collective)) + "_" + info.param.name;
                         });

}  // namespace
}  // namespace tutti
