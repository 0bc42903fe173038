// Wire types: float32 that travels as a narrower float, and the deterministic mode.
// Covers executor/step_work.cc, comm/call/arguments.cc, comm/create_options.cc, kernels/tree_reduction.h.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "support/ranks.h"

namespace tutti::test {
namespace {

struct Wire {
  tuttiDataType_t type;
  const char* name;
  double roundoff;  // half the distance of neighbours, relative
  float smallest;   // below this, roundoff is absolute: smallest * roundoff
};
constexpr Wire kWires[] = {{tuttiFloat16, "float16", 0x1p-11, 0x1p-14f},
                           {tuttiBfloat16, "bfloat16", 0x1p-8, 0x1p-126f},
                           {tuttiFloat8e4m3, "float8e4m3", 0x1p-4, 0x1p-6f},
                           {tuttiFloat8e5m2, "float8e5m2", 0x1p-3, 0x1p-14f}};

float value_of(int rank, std::size_t i) {
  return static_cast<float>(static_cast<int>((i * 37 + static_cast<std::size_t>(rank) * 101) % 2003) - 1001) / 1000.0f;
}

class WireType : public ::testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(WireType, SumsAreWithinTheDocumentedBound) {
  const Wire wire = kWires[std::get<0>(GetParam())];
  const int ranks = std::get<1>(GetParam());
  const std::size_t counts[] = {1, 17, 4096, 4097, 100'003};
  std::mutex mutex;
  std::vector<std::vector<float>> results;
  run_threads(ranks, [&](tuttiComm_t comm, int rank) {
    for (const std::size_t count : counts) {
      std::vector<float> data(count), out(count);
      for (std::size_t i = 0; i < count; ++i) data[i] = value_of(rank, i);
      const bool in_place = rank % 2 == 1;
      std::vector<float>& target = in_place ? data : out;
      ASSERT_EQ(tuttiAllReduceWire(data.data(), target.data(), count, tuttiFloat32, tuttiSum, wire.type, comm, nullptr),
                tuttiSuccess)
          << tuttiGetLastError(comm);
      for (std::size_t i = 0; i < count; ++i) {
        double exact = 0, absolute = 0;
        for (int r = 0; r < ranks; ++r) {
          exact += value_of(r, i);
          absolute += std::max(std::fabs(value_of(r, i)), wire.smallest);
        }
        const double bound = wire.roundoff * (absolute + std::max<double>(std::fabs(exact), wire.smallest)) * 1.13;
        ASSERT_LE(std::fabs(target[i] - exact), bound) << i << " of " << count;
      }
      const std::lock_guard lock(mutex);
      results.push_back(target);
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
  for (const std::size_t count : counts) {
    const std::vector<float>* first = nullptr;
    for (const auto& result : results) {
      if (result.size() != count) continue;
      if (first == nullptr) first = &result;
      EXPECT_EQ(std::memcmp(result.data(), first->data(), count * sizeof(float)), 0) << "ranks differ at " << count;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, WireType, ::testing::Combine(::testing::Range(0, 4), ::testing::Values(1, 2, 3, 5)),
                         [](const auto& info) {
                           return std::string(kWires[std::get<0>(info.param)].name) + "_" +
                                  std::to_string(std::get<1>(info.param));
                         });

// What is promised: the bits of the same call on buffers of the wire type.
TEST(Wire, ResultsAreThoseOfTheWireTypeWidened) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.wireType = tuttiBfloat16;
  for (const char* algorithm : {"auto", "ring", "all_pairs_two_shot", "halving_doubling", "double_tree"}) {
    const ScopedSetting forced("TUTTI_ALGO", algorithm);
    run_threads(
        3,
        [](tuttiComm_t comm, int rank) {
          constexpr std::size_t kCount = 30'011;
          std::vector<float> data(kCount), out(kCount);
          std::vector<std::uint16_t> narrow(kCount), sums(kCount);
          for (std::size_t i = 0; i < kCount; ++i) {
            // Exact in bfloat16, so that only the library rounds.
            data[i] = static_cast<float>(static_cast<int>((i * 7 + static_cast<std::size_t>(rank)) % 255) - 127);
            std::uint32_t bits;
            std::memcpy(&bits, &data[i], 4);
            narrow[i] = static_cast<std::uint16_t>(bits >> 16);
          }
          for (const tuttiRedOp_t op : {tuttiSum, tuttiAvg, tuttiMax}) {
            ASSERT_EQ(tuttiAllReduce(data.data(), out.data(), kCount, tuttiFloat32, op, comm, nullptr), tuttiSuccess);
            ASSERT_EQ(tuttiAllReduce(narrow.data(), sums.data(), kCount, tuttiBfloat16, op, comm, nullptr),
                      tuttiSuccess);
            for (std::size_t i = 0; i < kCount; ++i) {
              const std::uint32_t bits = static_cast<std::uint32_t>(sums[i]) << 16;
              ASSERT_EQ(std::memcmp(&bits, &out[i], 4), 0) << i;
            }
          }
          // Other types and collectives that only move travel as they are.
          std::vector<float> moved(kCount);
          data[0] = 1.0f / 3;
          ASSERT_EQ(tuttiBroadcast(data.data(), moved.data(), kCount, tuttiFloat32, 0, comm, nullptr), tuttiSuccess);
          EXPECT_EQ(moved[0], 1.0f / 3);
          float third = 1.0f / 3;
          ASSERT_EQ(tuttiAllReduceWire(&third, &third, 1, tuttiFloat32, tuttiMax, tuttiFloat32, comm, nullptr),
                    tuttiSuccess);
          EXPECT_EQ(third, 1.0f / 3) << "float32 for this call";
          EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
        },
        &config);
  }
}

TEST(Wire, ReduceAndReduceScatterTravelNarrow) {
  run_threads(3, [](tuttiComm_t comm, int rank) {
    constexpr std::size_t kBlock = 5003;
    std::vector<float> data(3 * kBlock, 1.0f + 0x1p-12f), mine(kBlock), whole(3 * kBlock, -1);
    ASSERT_EQ(
        tuttiReduceScatterWire(data.data(), mine.data(), kBlock, tuttiFloat32, tuttiSum, tuttiFloat16, comm, nullptr),
        tuttiSuccess);
    EXPECT_EQ(mine, std::vector<float>(kBlock, 3.0f)) << "1 + 2^-12 is 1 in float16";
    ASSERT_EQ(
        tuttiReduceWire(data.data(), whole.data(), 3 * kBlock, tuttiFloat32, tuttiSum, 1, tuttiFloat16, comm, nullptr),
        tuttiSuccess);
    EXPECT_EQ(whole, std::vector<float>(3 * kBlock, rank == 1 ? 3.0f : -1.0f));
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

TEST(Wire, WhatCannotTravelNarrowIsRefused) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  run_threads(1, [](tuttiComm_t comm, int) {
    double wide = 1;
    float value = 1;
    EXPECT_EQ(tuttiAllReduceWire(&wide, &wide, 1, tuttiFloat64, tuttiSum, tuttiFloat16, comm, nullptr),
              tuttiInvalidArgument);
    for (const int wire : {static_cast<int>(tuttiInt8), static_cast<int>(tuttiFloat64), 99, -1})
      EXPECT_EQ(tuttiAllReduceWire(&value, &value, 1, tuttiFloat32, tuttiSum, static_cast<tuttiDataType_t>(wire), comm,
                                   nullptr),
                tuttiInvalidArgument)
          << wire;
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.wireType = tuttiFloat16;
  config.deterministic = 1;
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  tuttiComm_t comm;
  EXPECT_EQ(tuttiCommInitRankConfig(&comm, 1, id, 0, &config), tuttiInvalidArgument);
  ASSERT_EQ(tuttiCommInitRank(&comm, 1, id, 0), tuttiSuccess) << "the id is as good as before";
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

TEST(Wire, RanksThatDisagreeAreTold) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  run_threads(2, [](tuttiComm_t comm, int rank) {
    std::vector<float> data(1000);
    const tuttiDataType_t wire = rank == 0 ? tuttiFloat16 : tuttiBfloat16;
    EXPECT_EQ(tuttiAllReduceWire(data.data(), data.data(), 1000, tuttiFloat32, tuttiSum, wire, comm, nullptr),
              tuttiMismatch);
    EXPECT_NE(std::string(tuttiGetLastError(comm)).find("as bfloat16"), std::string::npos) << tuttiGetLastError(comm);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiMismatch);
  });
}

/// sum(lo, hi) = sum(lo, mid) + sum(mid, hi), mid = lo + the largest power of two below hi - lo.
float tree_sum(const std::vector<float>& x, std::size_t lo, std::size_t hi) {
  if (hi - lo == 1) return x[lo];
  std::size_t power = 1;
  while (power * 2 < hi - lo) power *= 2;
  return tree_sum(x, lo, lo + power) + tree_sum(x, lo + power, hi);
}

float rough(int rank, std::size_t i) {
  return std::ldexp(1.0f + static_cast<float>((i * 7919 + static_cast<std::size_t>(rank) * 104729) % 65536) / 65536.0f,
                    static_cast<int>((i + static_cast<std::size_t>(rank) * 5) % 23));
}

class Deterministic : public ::testing::TestWithParam<int> {};

TEST_P(Deterministic, SumsAreTheDefinedTreeWhateverTheAlgorithmSizeAndPlace) {
  const int ranks = GetParam();
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.deterministic = 1;
  for (const char* algorithm : {"auto", "all_pairs", "all_pairs_two_shot"}) {
    const ScopedSetting forced("TUTTI_ALGO", algorithm);
    run_threads(
        ranks,
        [ranks](tuttiComm_t comm, int rank) {
          for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{120'011}}) {
            std::vector<float> data(count), out(count), expected(count);
            for (std::size_t i = 0; i < count; ++i) {
              std::vector<float> all;
              for (int r = 0; r < ranks; ++r) all.push_back(rough(r, i));
              expected[i] = tree_sum(all, 0, all.size());
              data[i] = rough(rank, i);
            }
            ASSERT_EQ(tuttiAllReduce(data.data(), out.data(), count, tuttiFloat32, tuttiSum, comm, nullptr),
                      tuttiSuccess);
            EXPECT_EQ(std::memcmp(out.data(), expected.data(), count * sizeof(float)), 0) << count;
            ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
            ASSERT_EQ(tuttiAllReduce(data.data(), data.data(), count / 2, tuttiFloat32, tuttiSum, comm, nullptr),
                      tuttiSuccess);
            ASSERT_EQ(tuttiAllReduce(data.data() + count / 2, data.data() + count / 2, count - count / 2, tuttiFloat32,
                                     tuttiSum, comm, nullptr),
                      tuttiSuccess);
            ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess);
            EXPECT_EQ(std::memcmp(data.data(), expected.data(), count * sizeof(float)), 0) << "fused or in place";
          }
          EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
        },
        &config);
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, Deterministic, ::testing::Values(1, 2, 3, 5, 7));

}  // namespace
}  // namespace tutti::test
