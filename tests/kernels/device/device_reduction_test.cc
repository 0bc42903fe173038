// Covers kernels/device/device_reduction.h, kernels/device/device_pass.h.
// The device's reductions, compiled for the host and run by groups of emulated and of real threads, against the
// processor's kernels: the same bits for every type, operation, size, alignment, number of sources and destinations.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "kernels/all_types.h"
#include "kernels/device/device_table.h"
#include "kernels/guarded.h"
#include "kernels/kernels.h"
#include "kernels/oracle.h"

namespace tutti {
namespace {

using oracle::Row;

constexpr std::size_t kMostSources = 8;

/// How one reduction is laid out in memory, in bytes beyond a multiple of 64, and shared out.
struct DeviceLayout {
  std::array<std::size_t, kMostSources> sources{};
  std::array<std::size_t, 2> destinations{};
  int destination_count = 1;
  int in_place = -1;            ///< the source that is a destination
  std::size_t in_place_of = 0;  ///< which one
  unsigned threads = 1;
  bool at_once = false;
};

std::string text_of(const DeviceLayout& layout) {
  std::string text = std::to_string(layout.threads) + (layout.at_once ? " threads at once, " : " threads, ");
  text += std::to_string(layout.destination_count) + " destinations at " + std::to_string(layout.destinations[0]) +
          " and " + std::to_string(layout.destinations[1]) + ", source " + std::to_string(layout.in_place) +
          " in place of " + std::to_string(layout.in_place_of) + ", from";
  for (std::size_t offset : layout.sources) text += " " + std::to_string(offset);
  return text;
}

Row expected_row(DataType type, RedOp op, const std::vector<Row>& rows, std::size_t count, std::uint32_t divisor) {
  std::vector<const void*> pointers;
  for (const Row& row : rows) pointers.push_back(row.data());
  Row result(count * size_of(type).value);
  reduce_kernel(type,
                op)({pointers.data(), static_cast<int>(rows.size()), result.data(), nullptr, count, divisor, false});
  return result;
}

/// Runs the reduction of the first elements of the rows, as many as `expected` has; empty, or what is wrong.
std::string difference(DataType type, RedOp op, const std::vector<Row>& rows, const Row& expected,
                       std::uint32_t divisor, const DeviceLayout& layout) {
  const std::size_t bytes = expected.size();
  std::vector<Guarded> destinations;
  for (std::size_t offset : layout.destinations) destinations.emplace_back(offset, bytes);
  void* const to[] = {destinations[0].data(), destinations[1].data()};
  // To the byte, so that the address sanitizer sees a read too far on either side.
  std::vector<Row> sources(rows.size());
  std::vector<const void*> from(rows.size());
  for (std::size_t k = 0; k < rows.size(); ++k) {
    sources[k].resize(layout.sources[k] + bytes + (bytes == 0 ? 1 : 0));
    auto* const start = static_cast<int>(k) == layout.in_place ? destinations[layout.in_place_of].data()
                                                               : sources[k].data() + layout.sources[k];
    std::copy_n(rows[k].data(), bytes, start);
    from[k] = start;
  }
  const DeviceTable::Entry entry = device_reduction(type, op);
  const device::ReduceArgs args{
      from.data(), static_cast<int>(rows.size()), to, layout.destination_count, bytes / entry.element, divisor};
  run_group(layout.threads, layout.at_once, [&](unsigned thread) { entry.reduce(thread, layout.threads, args); });
  for (int d = 0; d < layout.destination_count; ++d) {
    const auto wrong = std::mismatch(expected.begin(), expected.end(), destinations[d].data()).first;
    if (wrong != expected.end()) {
      return "destination " + std::to_string(d) + " differs at byte " + std::to_string(wrong - expected.begin());
    }
    if (!destinations[d].guards_untouched()) return "written outside destination " + std::to_string(d);
  }
  return "";
}

class DeviceReduction : public testing::TestWithParam<DataType> {
 protected:
  DataType type() const { return GetParam(); }
  std::size_t size() const { return size_of(GetParam()).value; }

  /// Calls body(op, divisor) for every operation that the processor's kernels offer.
  template <class Body>
  void for_each_operation(const Body& body) const {
    for (int op = 0; op < kRedOps; ++op) {
      const auto red_op = static_cast<RedOp>(op);
      if (reduce_kernel(type(), red_op) == nullptr) continue;
      SCOPED_TRACE(name_of(red_op));
      body(red_op);
      if (HasFatalFailure()) return;
    }
  }

  void expect_same(RedOp op, const std::vector<Row>& rows, std::size_t count, std::uint32_t divisor,
                   const DeviceLayout& layout) const {
    const Row expected = expected_row(type(), op, rows, count, divisor);
    ASSERT_EQ(difference(type(), op, rows, expected, divisor, layout), "")
        << rows.size() << " sources of " << count << " / " << divisor << ", " << text_of(layout);
  }
};

/// Sizes around everything that is counted in: elements, threads, packs, runs of packs.
std::vector<std::size_t> counts(unsigned threads) { return {0, 1, threads - 1, threads + 1, 97, 257, 1031}; }

DeviceLayout random_layout(std::mt19937& random, std::size_t size, std::size_t sources) {
  DeviceLayout layout;
  // A third aligned alike, a third by any element, a third by any byte.
  const std::size_t kind = random() % 3;
  const std::size_t step = kind == 2 ? 1 : size;
  const std::size_t common = random() % (16 / size) * size;
  for (std::size_t& offset : layout.sources) offset = kind == 0 ? common : random() % (32 / step) * step;
  for (std::size_t& offset : layout.destinations) offset = kind == 0 ? common : random() % (16 / step) * step;
  if (kind != 0 && random() % 2 == 0) layout.destinations[1] = layout.destinations[0];
  layout.destination_count = 1 + static_cast<int>(random() % 2);
  layout.in_place_of = random() % static_cast<unsigned>(layout.destination_count);
  if (random() % 2 == 0) layout.in_place = static_cast<int>(random() % sources);
  return layout;
}

TEST_P(DeviceReduction, OffersWhatTheProcessorOffers) {
  for (int op = 0; op < kRedOps; ++op) {
    const auto red_op = static_cast<RedOp>(op);
    EXPECT_EQ(device_reduction(type(), red_op).reduce != nullptr, reduce_kernel(type(), red_op) != nullptr)
        << name_of(red_op);
  }
}

TEST_P(DeviceReduction, EveryNumberOfSourcesAndEveryLayout) {
  std::mt19937 random(static_cast<unsigned>(type()) + 1);
  const std::vector<Row> rows = oracle::random_rows(type(), kMostSources, 1031, 11);
  for_each_operation([&](RedOp op) {
    for (std::size_t sources = 1; sources <= kMostSources; ++sources) {
      const std::vector<Row> some(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(sources));
      for (unsigned threads : {1u, 4u, 32u}) {
        for (std::size_t count : counts(threads)) {
          DeviceLayout layout = random_layout(random, size(), sources);
          layout.threads = threads;
          const auto divisor = op == RedOp::kAvg ? static_cast<std::uint32_t>(random() % 9 + 1) : 1;
          expect_same(op, some, count, divisor, layout);
          if (HasFatalFailure()) return;
        }
      }
    }
  });
}

// By packs up to eight sources, from and to any address.
TEST_P(DeviceReduction, InTheOrderOfATree) {
  std::mt19937 random(static_cast<unsigned>(type()) + 50);
  const std::vector<Row> rows = oracle::random_rows(type(), device::kMostInTree, 61, 14);
  for_each_operation([&](RedOp op) {
    for (std::size_t sources : {1, 3, 4, 5, 6, 7, 8, 13, 16, 31}) {
      std::vector<const void*> from;
      for (std::size_t k = 0; k < sources; ++k) from.push_back(rows[k].data());
      const std::uint32_t divisor = op == RedOp::kAvg ? 3 : 1;
      Row expected(rows[0].size());
      const int count = static_cast<int>(sources);
      reduce_kernel(type(), op)({from.data(), count, expected.data(), nullptr, 61, divisor, false, ReduceOrder::kTree});
      const DeviceTable::Entry entry = device_reduction(type(), op);
      for (int sample = 0; sample < 4; ++sample) {
        std::vector<Guarded> destinations;
        for (int d = 0; d < 2; ++d) destinations.emplace_back(random() % (16 / size()) * size(), expected.size());
        void* const to[] = {destinations[0].data(), destinations[1].data()};
        std::vector<Row> moved(sources);
        for (std::size_t k = 0; k < sources; ++k) {
          const std::size_t offset = sample == 0 ? 0 : random() % (16 / size()) * size();
          moved[k].resize(offset + expected.size());
          std::copy_n(rows[k].data(), expected.size(), moved[k].data() + offset);
          from[k] = moved[k].data() + offset;
        }
        const device::ReduceArgs args{from.data(), count, to, 2, expected.size() / entry.element, divisor, true};
        run_group(3, false, [&](unsigned thread) { entry.reduce(thread, 3, args); });
        for (Guarded& destination : destinations) {
          ASSERT_TRUE(std::equal(expected.begin(), expected.end(), destination.data())) << sources << " sources";
          ASSERT_TRUE(destination.guards_untouched()) << sources << " sources";
        }
      }
    }
  });
}

// What the thread sanitizer watches: no two threads touch an element.
TEST_P(DeviceReduction, ThreadsAtOnce) {
  std::mt19937 random(static_cast<unsigned>(type()) + 100);
  const std::vector<Row> rows = oracle::random_rows(type(), 3, 3001, 12);
  for_each_operation([&](RedOp op) {
    for (std::size_t sources : {2, 3}) {
      const std::vector<Row> some(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(sources));
      for (int sample = 0; sample < 4; ++sample) {
        DeviceLayout layout = random_layout(random, size(), sources);
        layout.threads = 4;
        layout.at_once = true;
        expect_same(op, some, 3001 - random() % 100, op == RedOp::kAvg ? 3 : 1, layout);
        if (HasFatalFailure()) return;
      }
    }
  });
}

TEST_P(DeviceReduction, EveryMisalignmentOfTwoBuffers) {
  const std::vector<Row> rows = oracle::random_rows(type(), 2, 200, 13);
  DeviceLayout layout;
  layout.threads = 3;
  for (std::size_t source = 0; source < 16; ++source) {
    for (std::size_t destination = 0; destination < 16; ++destination) {
      layout.sources = {source, (source * 7 + 3) % 16};
      layout.destinations = {destination, destination};
      expect_same(RedOp::kSum, rows, 200, 1, layout);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(DeviceReduction, EveryMisalignmentOfTwoDestinations) {
  const std::vector<Row> rows = oracle::random_rows(type(), 3, 200, 15);
  DeviceLayout layout;
  layout.threads = 3;
  layout.destination_count = 2;
  for (std::size_t first = 0; first < 16; ++first) {
    for (std::size_t second = 0; second < 16; ++second) {
      layout.sources = {first, second, (first * 5 + 2) % 16};
      layout.destinations = {first, second};
      layout.in_place = static_cast<int>((first + second) % 3) - 1;
      layout.in_place_of = second % 2;
      expect_same(RedOp::kSum, rows, 200, 1, layout);
      if (HasFatalFailure()) return;
    }
  }
}

// A slot and a part of the caller's buffer.
TEST(DeviceSplit, DestinationsThatDifferGoByPacks) {
  alignas(16) unsigned char slot[512], buffer[512];
  for (const std::size_t beyond : {4, 8, 12}) {
    const void* const sources[] = {buffer + beyond, slot};
    void* const destinations[] = {slot, buffer + beyond};
    const device::Split split = device::split_of<float>({sources, 2, destinations, 2, 100});
    EXPECT_EQ(split.packs, 23u);  // all but the first and the last
    EXPECT_TRUE(split.shifted);
  }
}

// All values there are, in pairs for 8 bits and each with some others for 16; else the special ones. Once by packs,
// once with a destination aside, and once with the first destination where, but for 8 bits, no element is aligned.
TEST_P(DeviceReduction, EveryPairOfValues) {
  const std::vector<Row> rows = oracle::exhaustive_rows(type(), 6);
  const std::size_t count = rows[0].size() / size();
  DeviceLayout packs;
  packs.threads = 5;
  DeviceLayout elements = packs;
  elements.destination_count = 2;
  elements.destinations = {1, 1};
  DeviceLayout aside = packs;
  aside.destination_count = 2;
  aside.destinations[1] = 1;
  for_each_operation([&](RedOp op) {
    for (const std::uint32_t divisor : {1u, 3u, 64u, 0x80000001u}) {
      if (op != RedOp::kAvg && divisor != 1) break;
      for (const DeviceLayout& layout : {packs, aside, elements}) {
        expect_same(op, rows, count, divisor, layout);
        if (HasFatalFailure()) return;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Types, DeviceReduction, testing::ValuesIn(kAllTypes), name_of_type);

TEST(DeviceCopy, EverySizeAlignmentAndDestination) {
  std::mt19937 random(5);
  Row source(600);
  for (unsigned char& byte : source) byte = static_cast<unsigned char>(random());
  for (std::size_t bytes = 0; bytes < 500; ++bytes) {
    const std::size_t from = random() % 32;
    Guarded first(random() % 16, bytes);
    Guarded second(random() % 16, bytes);
    void* const destinations[] = {first.data(), second.data()};
    const int count = 1 + static_cast<int>(random() % 2);
    const Row exact(source.begin() + static_cast<std::ptrdiff_t>(from),
                    source.begin() + static_cast<std::ptrdiff_t>(from + bytes));
    run_group(4, bytes % 50 == 0, [&](unsigned thread) {
      device::copy(thread, 4, source.data() + from, destinations, count, Bytes{bytes});
    });
    EXPECT_TRUE(std::equal(exact.begin(), exact.end(), first.data()) && first.guards_untouched()) << bytes;
    if (count == 2) {
      EXPECT_TRUE(std::equal(exact.begin(), exact.end(), second.data()) && second.guards_untouched()) << bytes;
    }
  }
}

}  // namespace
}  // namespace tutti
