// Covers kernels/tree_reduction.h.
// Reductions in tree order: exactly the recursive definition, for every number of sources, tail and place, on every
// instruction set; and operations that need no order give what they give in any.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/guarded.h"
#include "kernels/kernels.h"
#include "kernels/oracle.h"
#include "kernels/simd_sets.h"

namespace tutti {
namespace {

using oracle::Row;

/// Sources of one type and what their reduction must give.
struct Case {
  DataType type;
  RedOp op;
  std::uint32_t divisor;
  std::vector<Row> rows;
  Row expected;
};

Case make_case(DataType type, RedOp op, std::size_t sources, std::size_t count) {
  const std::uint32_t divisor = op == RedOp::kAvg ? static_cast<std::uint32_t>(sources) : 1;
  Case made{type, op, divisor, oracle::random_rows(type, sources, count, sources), {}};
  made.expected.resize(count * size_of(type).value);
  std::vector<oracle::Bits> values(sources);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < sources; ++k) {
      oracle::Bits bits = oracle::element(type, made.rows[k].data(), i);
      // Many sources with NaNs and infinities would leave nothing else.
      if (sources > 4 && !std::isfinite(oracle::decode(type, bits)) && (i + k) % 16 != 0) bits = i + k;
      oracle::set_element(type, made.rows[k].data(), i, bits);
      values[k] = bits;
    }
    oracle::set_element(type, made.expected.data(), i, oracle::reduce_floats_by_tree(type, op, values, divisor));
  }
  return made;
}

struct Place {
  std::size_t offset = 0;  ///< of the destination and, times k + 1, of source k
  int in_place = -1;
  bool second = false;
  bool stream = false;
};

/// Reduces the first `count` elements on the set in use; empty, or what is wrong.
std::string error_of(const Case& made, std::size_t count, const Place& place) {
  const std::size_t bytes = count * size_of(made.type).value;
  Guarded destination(place.offset, bytes);
  Guarded second(3 * place.offset % 64, bytes);
  std::vector<Row> sources(made.rows.size());
  std::vector<const void*> pointers(made.rows.size());
  for (std::size_t k = 0; k < made.rows.size(); ++k) {
    if (static_cast<int>(k) == place.in_place) {
      std::copy_n(made.rows[k].data(), bytes, destination.data());
      pointers[k] = destination.data();
      continue;
    }
    const std::size_t offset = (k + 1) * place.offset % 64;
    sources[k].resize(offset + bytes);  // to the byte, so that the address sanitizer sees a read too far
    std::copy_n(made.rows[k].data(), bytes, sources[k].data() + offset);
    pointers[k] = sources[k].data() + offset;
  }
  ReduceArgs args{pointers.data(), static_cast<int>(pointers.size()), destination.data()};
  args.second = place.second ? second.data() : nullptr;
  args.count = count;
  args.divisor = made.divisor;
  args.stream = place.stream;
  args.order = ReduceOrder::kTree;
  reduce_kernel(made.type, made.op)(args);
  const auto expected_end = made.expected.begin() + static_cast<std::ptrdiff_t>(bytes);
  if (!std::equal(made.expected.begin(), expected_end, destination.data())) return "destination differs";
  if (place.second && !std::equal(made.expected.begin(), expected_end, second.data())) return "second differs";
  if (!destination.guards_untouched() || !second.guards_untouched()) return "written outside a destination";
  return "";
}

class TreeOrder : public testing::TestWithParam<DataType> {
 protected:
  /// Calls body(set) on every instruction set.
  template <class Body>
  static void on_every_set(const Body& body) {
    for (const std::string& set : simd_sets()) {
      const SimdScope scope(set);
      body(set);
    }
  }
};

constexpr RedOp kOrdered[] = {RedOp::kSum, RedOp::kProd, RedOp::kAvg};

TEST_P(TreeOrder, EveryNumberOfSources) {
  std::vector<std::size_t> numbers(40);
  std::iota(numbers.begin(), numbers.end(), std::size_t{1});
  numbers.insert(numbers.end(), {255, 256, 257});
  for (std::size_t sources : numbers) {
    for (RedOp op : kOrdered) {
      const Case made = make_case(GetParam(), op, sources, 37);
      on_every_set([&](const std::string& set) {
        EXPECT_EQ(error_of(made, 37, {}), "") << name_of(op) << " of " << sources << " on " << set;
        EXPECT_EQ(error_of(made, 3, {}), "") << name_of(op) << " of " << sources << " on " << set;
      });
    }
  }
}

TEST_P(TreeOrder, ThousandsOfSources) {
  for (std::size_t sources : {4095u, 4096u}) {
    const Case made = make_case(GetParam(), RedOp::kSum, sources, 17);
    on_every_set([&](const std::string& set) { EXPECT_EQ(error_of(made, 17, {}), "") << sources << " on " << set; });
  }
}

// 4 and 8 sources have loops of their own.
TEST_P(TreeOrder, EveryTailAndMisalignment) {
  for (std::size_t sources : {4u, 8u, 13u}) {
    const Case made = make_case(GetParam(), RedOp::kSum, sources, 150);
    on_every_set([&](const std::string& set) {
      for (std::size_t count = 0; count <= 150; ++count) {
        const int in_place = static_cast<int>(count % (sources + 1));  // sometimes none
        const Place place{count * 7 % 64, in_place, count % 2 == 0, count % 3 == 0};
        ASSERT_EQ(error_of(made, count, place), "") << count << " elements of " << sources << " on " << set;
      }
      for (std::size_t offset = 0; offset < 64; ++offset) {
        ASSERT_EQ(error_of(made, 150, {offset, -1, true, true}), "") << "offset " << offset << " on " << set;
      }
    });
  }
}

TEST_P(TreeOrder, InPlaceAtEverySource) {
  for (std::size_t sources : {4u, 8u, 11u}) {
    const Case made = make_case(GetParam(), RedOp::kProd, sources, 100);
    on_every_set([&](const std::string& set) {
      for (int k = 0; k < static_cast<int>(sources); ++k) {
        ASSERT_EQ(error_of(made, 100, {0, k, false, true}), "") << k << " on " << set;
        ASSERT_EQ(error_of(made, 5, {1, k, true, false}), "") << k << " on " << set;
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Types, TreeOrder,
                         testing::Values(DataType::kFloat8e4m3, DataType::kFloat8e5m2, DataType::kFloat16,
                                         DataType::kBfloat16, DataType::kFloat32, DataType::kFloat64),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// 1 and a thousand quarters of its last place: a left fold stays at 1, the tree collects them. Shown where the type is
// as precise as its lanes.
template <class T>
T sum_of_one_and_quarters(DataType type, ReduceOrder order) {
  const T one = 1;
  const T quarter = std::numeric_limits<T>::epsilon() / 4;
  std::vector<const void*> pointers(1024, &quarter);
  pointers[0] = &one;
  T result = 0;
  ReduceArgs args{pointers.data(), 1024, &result, nullptr, 1};
  args.order = order;
  reduce_kernel(type, RedOp::kSum)(args);
  return result;
}

TEST(Order, IsTheCallersChoice) {
  EXPECT_EQ(sum_of_one_and_quarters<float>(DataType::kFloat32, ReduceOrder::kLeft), 1);
  EXPECT_GT(sum_of_one_and_quarters<float>(DataType::kFloat32, ReduceOrder::kTree), 1);
  EXPECT_EQ(sum_of_one_and_quarters<double>(DataType::kFloat64, ReduceOrder::kLeft), 1);
  EXPECT_GT(sum_of_one_and_quarters<double>(DataType::kFloat64, ReduceOrder::kTree), 1);
}

TEST(Order, IsTheSameForWhatNeedsNoOrder) {
  for (int t = 0; t < kDataTypes; ++t) {
    const auto type = static_cast<DataType>(t);
    const auto rows = oracle::random_rows(type, 9, 70, 11);
    std::vector<const void*> pointers;
    for (const Row& row : rows) pointers.push_back(row.data());
    for (int o = 0; o < kRedOps; ++o) {
      const auto op = static_cast<RedOp>(o);
      const ReduceKernel kernel = reduce_kernel(type, op);
      if (kernel == nullptr || (is_float(type) && op != RedOp::kMin && op != RedOp::kMax)) continue;
      Row result(rows[0].size());
      ReduceArgs args{pointers.data(), 9, result.data(), nullptr, 70};
      args.order = ReduceOrder::kTree;
      kernel(args);
      EXPECT_TRUE(result == oracle::reduce_rows(type, op, rows, 1)) << name_of(op) << " of " << name_of(type);
    }
  }
}

}  // namespace
}  // namespace tutti
