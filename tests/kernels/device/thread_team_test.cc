// Covers kernels/device/thread_team.h.
#include "kernels/device/thread_team.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

namespace tutti {
namespace {

constexpr std::uint32_t kMostPieces = 20;

TEST(ThreadTeam, EveryPieceHasAllThreadsOfOneTeam) {
  for (std::uint32_t threads = 1; threads <= 70; ++threads) {
    for (std::uint32_t pieces = 1; pieces <= kMostPieces; ++pieces) {
      std::vector<std::vector<std::uint32_t>> takers(pieces);
      std::uint32_t size = 0;
      for (std::uint32_t thread = 0; thread < threads; ++thread) {
        const ThreadTeam team = ThreadTeam::of(thread, threads, pieces);
        size = team.threads;
        for (std::uint32_t k = team.index; k < pieces; k += team.teams) takers[k].push_back(team.thread);
      }
      std::vector<std::uint32_t> all;
      for (std::uint32_t i = 0; i < size; ++i) all.push_back(i);
      for (const auto& taker : takers) EXPECT_EQ(taker, all) << threads << " threads, " << pieces << " pieces";
      EXPECT_EQ(size, std::max(1u, std::bit_floor(threads) / std::bit_ceil(pieces)));
    }
  }
}

TEST(ThreadTeam, OfABlockOfADeviceIsMadeOfWholeWarps) {
  for (std::uint32_t pieces = 1; pieces <= 16; ++pieces) EXPECT_GE(ThreadTeam::of(511, 512, pieces).threads, 32u);
}

}  // namespace
}  // namespace tutti
