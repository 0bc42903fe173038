// Covers schedule/tiling.h.
// Tiling: the ranges of all tiles and chunks cover each block exactly once, and equal parts have equal sizes.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "schedule/tiling.h"

namespace tutti {
namespace {

struct Case {
  std::uint32_t parts;
  std::uint32_t blocks;
  std::size_t count;
  std::size_t tile;
  std::size_t align;
};

/// Every element of every block is in exactly one range; ranges keep the promises of tiling.h.
void check(const Case& c) {
  SCOPED_TRACE(testing::Message() << c.parts << " parts, " << c.blocks << " blocks, count " << c.count << ", tile "
                                  << c.tile << ", align " << c.align);
  const Tiling tiling(Extent{c.parts, c.blocks, 1, 0}, Elems{c.count}, Elems{c.tile}, Elems{c.align});
  std::vector<std::uint8_t> covered(c.blocks * c.count, 0);
  std::size_t largest = 0;
  ASSERT_GE(tiling.tiles(), 1u);
  for (std::size_t t = 0; t < tiling.tiles(); ++t) {
    for (std::uint32_t part = 0; part < c.parts; ++part) {
      const ChunkRange first = tiling.range(t, ChunkId{part});
      largest = std::max(largest, first.count.value);
      const std::size_t in_tile = first.offset.value - t * c.tile;
      if (first.count.value != 0 && c.align != 0) {
        ASSERT_EQ(in_tile % c.align, 0u) << "tile " << t << " part " << part;
      }
      for (std::uint32_t block = 0; block < c.blocks; ++block) {
        const ChunkRange range = tiling.range(t, ChunkId{block * c.parts + part});
        ASSERT_EQ(range.count, first.count);
        ASSERT_EQ(range.offset.value, first.offset.value + block * c.count);
        for (std::size_t i = 0; i < range.count.value; ++i) ++covered.at(range.offset.value + i);
      }
    }
  }
  ASSERT_EQ(tiling.max_chunk().value, largest);
  for (const std::uint8_t times : covered) ASSERT_EQ(times, 1);
}

TEST(Tiling, CoversExactlyOnceOnAGridOfSmallCases) {
  for (const std::uint32_t parts : {1u, 2u, 3u, 5u, 8u}) {
    for (const std::uint32_t blocks : {1u, 3u}) {
      for (std::size_t count = 0; count <= 40; ++count) {
        for (const std::size_t tile : {1u, 2u, 7u, 8u, 16u, 39u, 40u, 41u, 1000u}) {
          for (const std::size_t align : {1u, 4u, 16u})
            ASSERT_NO_FATAL_FAILURE(check({parts, blocks, count, tile, align}));
        }
      }
    }
  }
}

TEST(Tiling, CoversExactlyOnceOnRandomCases) {
  std::mt19937 random(7);
  const auto up_to = [&](std::size_t most) { return std::uniform_int_distribution<std::size_t>(1, most)(random); };
  for (int i = 0; i < 400; ++i) {
    const auto parts = static_cast<std::uint32_t>(up_to(70));
    const auto blocks = static_cast<std::uint32_t>(up_to(3));
    ASSERT_NO_FATAL_FAILURE(check({parts, blocks, up_to(3000) - 1, up_to(4000), std::size_t{1} << (up_to(7) - 1)}));
  }
}

TEST(Tiling, AnEmptyCallHasOneEmptyPass) {
  const Tiling tiling(Extent{4, 2, 1, 0}, Elems{0}, Elems{64}, Elems{16});
  EXPECT_EQ(tiling.tiles(), 1u);
  EXPECT_EQ(tiling.max_chunk(), Elems{0});
  for (std::uint32_t chunk = 0; chunk < 8; ++chunk) {
    EXPECT_EQ(tiling.range(0, ChunkId{chunk}).count, Elems{0});
    EXPECT_EQ(tiling.range(0, ChunkId{chunk}).offset, Elems{0});
  }
}

TEST(Tiling, FewerElementsThanPartsLeavesTheLastPartsEmpty) {
  const Tiling tiling(Extent{8, 1, 1, 0}, Elems{3}, Elems{1024}, Elems{1});
  EXPECT_EQ(tiling.max_chunk(), Elems{1});
  for (std::uint32_t part = 0; part < 8; ++part) {
    EXPECT_EQ(tiling.range(0, ChunkId{part}).count, Elems{part < 3 ? 1u : 0u});
  }
}

TEST(Tiling, TheLastTileIsDividedAnew) {
  const Tiling tiling(Extent{2, 1, 1, 0}, Elems{70}, Elems{64}, Elems{1});
  ASSERT_EQ(tiling.tiles(), 2u);
  EXPECT_EQ(tiling.range(0, ChunkId{1}).offset, Elems{32});
  EXPECT_EQ(tiling.range(1, ChunkId{0}).count, Elems{3});
  EXPECT_EQ(tiling.range(1, ChunkId{1}).offset, Elems{67});
}

TEST(Tiling, HugeCountsDoNotOverflow) {
  const std::size_t count = std::size_t{1} << 40;
  const Tiling tiling(Extent{7, 5, 1, 0}, Elems{count + 3}, Elems{std::size_t{1} << 34}, Elems{16});
  const std::size_t last = tiling.tiles() - 1;
  const ChunkRange range = tiling.range(last, ChunkId{4 * 7});
  EXPECT_EQ(range.offset.value, 4 * (count + 3) + last * (std::size_t{1} << 34));
  EXPECT_EQ(range.count, Elems{3});
}

}  // namespace
}  // namespace tutti
