// Covers kernels/reduction.h, kernels/arithmetic.h, kernels/kernels.cc, kernels/isa_*.cc, kernels/slot.cc.
// Every type and operation on every instruction set against the scalar oracle: tails, alignments, numbers of sources,
// in place, two destinations, past the caches; and nothing outside the destinations is written.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string>

#include "kernels/all_types.h"
#include "kernels/guarded.h"
#include "kernels/kernels.h"
#include "kernels/oracle.h"
#include "kernels/simd_sets.h"
#include "support/depth.h"

namespace tutti {
namespace {

using oracle::Row;

constexpr int kSourceCounts[] = {1, 2, 3, 4, 5, 8, 9};

bool offered(DataType type, RedOp op) {
  if (op == RedOp::kAvg) return type != DataType::kBool;
  return !(is_float(type) && is_bitwise(op));
}

/// How one call is laid out in memory.
struct Layout {
  std::array<std::size_t, 9> source_offsets{};
  std::size_t destination_offset = 0;
  std::size_t second_offset = 0;
  int in_place = -1;  ///< the source that is the destination
  bool second = false;
  bool stream = false;
};

std::string text_of(const Layout& layout) {
  std::string text = "offsets";
  for (std::size_t offset : layout.source_offsets) text += " " + std::to_string(offset);
  return text + " -> " + std::to_string(layout.destination_offset) + " in place " + std::to_string(layout.in_place) +
         " second " + std::to_string(layout.second) + " at " + std::to_string(layout.second_offset) + " stream " +
         std::to_string(layout.stream);
}

std::string text_of(const char* where, std::size_t index, oracle::Bits got, oracle::Bits want) {
  std::ostringstream text;
  text << where << "[" << index << "] is 0x" << std::hex << got << ", not 0x" << want;
  return text.str();
}

/// Runs the kernel on the first `count` elements of the rows; empty, or what differs from the expected row.
std::string difference(ReduceKernel kernel, DataType type, const std::vector<Row>& rows, const Row& expected,
                       std::size_t count, std::uint32_t divisor, const Layout& layout) {
  const std::size_t bytes = count * size_of(type).value;
  Guarded destination(layout.destination_offset, bytes);
  Guarded second(layout.second_offset, bytes);
  // Allocated to the byte, so that the address sanitizer sees a read too far.
  std::vector<Row> sources(rows.size());
  std::vector<const void*> pointers(rows.size());
  for (std::size_t k = 0; k < rows.size(); ++k) {
    if (static_cast<int>(k) == layout.in_place) {
      std::copy_n(rows[k].data(), bytes, destination.data());
      pointers[k] = destination.data();
    } else {
      sources[k].resize(layout.source_offsets[k] + bytes + (bytes == 0 ? 1 : 0));
      std::copy_n(rows[k].data(), bytes, sources[k].data() + layout.source_offsets[k]);
      pointers[k] = sources[k].data() + layout.source_offsets[k];
    }
  }
  kernel({pointers.data(), static_cast<int>(rows.size()), destination.data(), layout.second ? second.data() : nullptr,
          count, divisor, layout.stream});
  for (std::size_t i = 0; i < count; ++i) {
    const oracle::Bits want = oracle::element(type, expected.data(), i);
    const oracle::Bits got = oracle::element(type, destination.data(), i);
    if (got != want) return text_of("destination", i, got, want);
    if (layout.second && oracle::element(type, second.data(), i) != want) {
      return text_of("second", i, oracle::element(type, second.data(), i), want);
    }
  }
  if (!destination.guards_untouched() || !second.guards_untouched()) return "written outside a destination";
  return "";
}

class ReduceTest : public testing::TestWithParam<DataType> {
 protected:
  DataType type() const { return GetParam(); }
  std::size_t size() const { return size_of(GetParam()).value; }

  /// Calls body(op, kernel, rows, expected, divisor) for every offered operation and every number of sources, with
  /// `count` elements a row. Avg divides by the number of sources, and by 1.
  template <class Body>
  void for_each_reduction(std::size_t count, const Body& body) const {
    for (int op = 0; op < kRedOps; ++op) {
      const RedOp red_op = static_cast<RedOp>(op);
      if (!offered(type(), red_op)) continue;
      for (int k : kSourceCounts) {
        const auto rows = oracle::random_rows(type(), k, count, 1000 * op + k);
        const std::uint32_t divisor = red_op == RedOp::kAvg ? k : 1;
        const Row expected = oracle::reduce_rows(type(), red_op, rows, divisor);
        for (const std::string& set : simd_sets()) {
          const SimdScope scope(set);
          SCOPED_TRACE(std::string(name_of(red_op)) + " of " + std::to_string(k) + " sources, " + set);
          body(reduce_kernel(type(), red_op), rows, expected, divisor);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
};

TEST_P(ReduceTest, OffersExactlyTheDocumentedOperations) {
  for (const std::string& set : simd_sets()) {
    const SimdScope scope(set);
    for (int op = 0; op < kRedOps; ++op) {
      const RedOp red_op = static_cast<RedOp>(op);
      EXPECT_EQ(reduce_kernel(type(), red_op) != nullptr, offered(type(), red_op)) << name_of(red_op) << " " << set;
    }
  }
}

TEST_P(ReduceTest, EveryTail) {
  const std::size_t most = 2 * 64 / size() + 1;
  for_each_reduction(most, [&](ReduceKernel kernel, const std::vector<Row>& rows, const Row& expected, auto divisor) {
    for (std::size_t count = 0; count <= most; ++count) {
      const Layout layout;
      ASSERT_EQ(difference(kernel, type(), rows, expected, count, divisor, layout), "") << count << " elements";
    }
  });
}

// Long enough for the unrolled loop, for the loop of single vectors and for the overlapping last vector.
TEST_P(ReduceTest, EveryLayout) {
  const std::size_t most = 3 * 256 / size() + 2 * 64 / size() + 3;
  std::mt19937 random(7);
  for_each_reduction(most, [&](ReduceKernel kernel, const std::vector<Row>& rows, const Row& expected, auto divisor) {
    for (int sample = 0; sample < 40; ++sample) {
      Layout layout;
      // Mostly multiples of the element, sometimes any byte.
      const std::size_t step = sample % 8 == 0 ? 1 : size();
      for (std::size_t& offset : layout.source_offsets) offset = random() % (64 / step) * step;
      layout.destination_offset = random() % (64 / step) * step;
      layout.second_offset = random() % (64 / step) * step;
      if (sample % 3 == 0) layout.in_place = static_cast<int>(random() % rows.size());
      layout.second = sample % 2 == 0;
      layout.stream = sample % 4 < 2;
      const std::size_t count = sample % 5 == 0 ? random() % most : most - random() % (2 * 64 / size());
      ASSERT_EQ(difference(kernel, type(), rows, expected, count, divisor, layout), "")
          << count << " elements, " << text_of(layout);
    }
  });
}

TEST_P(ReduceTest, EveryMisalignmentOfThePointers) {
  const std::size_t count = 2 * 4 * 64 / size() + 5;
  const RedOp op = RedOp::kSum;
  const auto rows = oracle::random_rows(type(), 2, count, 3);
  const Row expected = oracle::reduce_rows(type(), op, rows, 1);
  for (const std::string& set : simd_sets()) {
    const SimdScope scope(set);
    for (std::size_t i = 0; i < 64; i += size()) {
      for (std::size_t j = 0; j < 64; j += size()) {
        Layout layout;
        layout.source_offsets = {i, (i + 2 * j) % 64};
        layout.destination_offset = j;
        layout.stream = (i / size()) % 2 == 0;
        ASSERT_EQ(difference(reduce_kernel(type(), op), type(), rows, expected, count, 1, layout), "")
            << set << " " << text_of(layout);
      }
    }
  }
}

std::vector<std::uint32_t> divisors_of(RedOp op) {
  if (op != RedOp::kAvg) return {1};
  if (!test::covers_all()) return {3, 0x80000001u};
  return {1, 2, 3, 100, 70000, 0x80000001u};
}

TEST_P(ReduceTest, EveryPairOfSpecialValues) {
  const auto special = oracle::special_values(type());
  const std::vector<Row> rows = oracle::paired_rows(type(), special, special);
  for (int op = 0; op < kRedOps; ++op) {
    const RedOp red_op = static_cast<RedOp>(op);
    if (!offered(type(), red_op)) continue;
    for (std::uint32_t divisor : divisors_of(red_op)) {
      const Row expected = oracle::reduce_rows(type(), red_op, rows, divisor);
      for (const std::string& set : simd_sets()) {
        const SimdScope scope(set);
        // From every element on, so that each pair meets the vector loop and the tails.
        for (std::size_t count : {special.size() * special.size(), std::size_t{3}, std::size_t{1}}) {
          ASSERT_EQ(difference(reduce_kernel(type(), red_op), type(), rows, expected, count, divisor, {}), "")
              << name_of(red_op) << " / " << divisor << " " << set;
        }
      }
    }
  }
}

TEST_P(ReduceTest, SetsAgreeOnLargeRandomData) {
  const std::size_t count = 4096;
  for (int op = 0; op < kRedOps; ++op) {
    const RedOp red_op = static_cast<RedOp>(op);
    if (!offered(type(), red_op)) continue;
    const auto rows = oracle::random_rows(type(), 3, count, op);
    const void* pointers[] = {rows[0].data(), rows[1].data(), rows[2].data()};
    Row first;
    for (const std::string& set : simd_sets()) {
      const SimdScope scope(set);
      Row result(count * size());
      reduce_kernel(type(), red_op)({pointers, 3, result.data(), nullptr, count, 1, false});
      if (first.empty()) first = result;
      EXPECT_TRUE(result == first) << name_of(red_op) << " " << set;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ReduceTest, testing::ValuesIn(kAllTypes), name_of_type);

TEST_P(ReduceTest, IntoSlot) {
  const RedOp op = RedOp::kMin;
  const std::size_t most = 20000 / size();
  const auto rows = oracle::random_rows(type(), 3, most, 5);
  const Row expected = oracle::reduce_rows(type(), op, rows, 1);
  const void* pointers[] = {rows[0].data(), rows[1].data(), rows[2].data()};
  for (std::size_t bytes : {std::size_t{8}, std::size_t{504}, std::size_t{512}, std::size_t{8192}, most * size()}) {
    for (bool twice : {false, true}) {
      Guarded slot(size(), bytes);
      Guarded second(0, bytes);
      const ReduceArgs args{pointers, 3, slot.data(), twice ? second.data() : nullptr, bytes / size()};
      SlotStores stores;
      reduce_into_slot(reduce_kernel(type(), op), size_of(type()), args, stores);
      EXPECT_TRUE(std::equal(slot.data(), slot.data() + bytes, expected.begin())) << bytes;
      if (twice) {
        EXPECT_TRUE(std::equal(second.data(), second.data() + bytes, expected.begin())) << bytes;
      }
      EXPECT_TRUE(slot.guards_untouched() && second.guards_untouched()) << bytes;
    }
  }
}

TEST(Kernels, SimdIsLoweredButNeverRaised) {
  const std::string best = simd_name();
  EXPECT_FALSE(select_simd("sse5"));
  EXPECT_EQ(simd_name(), best);
  EXPECT_TRUE(select_simd("avx512"));
  EXPECT_EQ(simd_name(), best);
  EXPECT_TRUE(select_simd("baseline"));
  EXPECT_STREQ(simd_name(), "baseline");
  EXPECT_TRUE(select_simd("auto"));
  EXPECT_EQ(simd_name(), best);
}

}  // namespace
}  // namespace tutti
