// Covers schedule/tiling.h.
// RaggedTiling under the schedules that use it: the tables of all ranks are run on numbers, tile by tile, with blocks
// of random sizes, empty ones and gaps between them.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <vector>

#include "collectives/choice/choice.h"
#include "schedule/tables.h"
#include "schedule/tiling.h"

namespace tutti {
namespace {

using Numbers = std::vector<std::uint32_t>;

/// One buffer of one rank: blocks in a random order, with a gap before each.
struct Buffer {
  std::vector<std::size_t> counts;
  std::vector<std::size_t> offsets;
  Numbers data;

  Buffer(std::vector<std::size_t> sizes, std::mt19937& random) : counts(std::move(sizes)), offsets(counts.size()) {
    std::vector<std::size_t> order(counts.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::shuffle(order, random);
    std::size_t end = 0;
    for (const std::size_t block : order) {
      offsets[block] = end + random() % 3;
      end = offsets[block] + counts[block];
    }
    data.assign(end + 1, 0);
  }
  BlockTable table() const { return {counts.data(), offsets.data(), counts.size()}; }
};

struct RankState {
  Schedule schedule;
  Buffer input;
  Buffer output;
  std::size_t tile = 0;
  std::size_t step = 0;
};

/// The ranks of one call, and what is under way between them; a message to all is one to each.
class World {
 public:
  World(const Algorithm& algorithm, const std::vector<std::vector<std::size_t>>& counts, std::size_t tile,
        std::mt19937& random)
      : tile_(tile), gathers_(algorithm.collective == Collective::kAllGather) {
    const auto n = static_cast<std::int32_t>(counts.size());
    for (std::int32_t rank = 0; rank < n; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      std::vector<std::size_t> received;
      for (std::size_t source = 0; source < counts.size(); ++source) {
        received.push_back(counts[source][gathers_ ? 0 : r]);
      }
      ranks_.push_back(RankState{build_schedule(algorithm, Shape{n, rank, 0, 1}), Buffer(counts[r], random),
                                 Buffer(received, random)});
      RankState& state = ranks_.back();
      for (std::uint32_t block = 0; block < counts[r].size(); ++block) {
        for (std::size_t i = 0; i < counts[r][block]; ++i) {
          state.input.data[state.input.offsets[block] + i] = value(r, block, i);
        }
      }
    }
  }

  /// Whether all ranks came to the end and left no message.
  bool run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (RankState& state : ranks_) {
        while (advance(state)) moved = true;
      }
    }
    for (const RankState& state : ranks_) {
      if (state.tile < tiling(state).tiles()) return false;
    }
    for (const auto& [link, queue] : links_) {
      if (!queue.empty()) return false;
    }
    return true;
  }

  void check() const {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const Buffer& output = ranks_[rank].output;
      Numbers expected(output.data.size(), 0);  // gaps stay as they were
      for (std::size_t source = 0; source < ranks_.size(); ++source) {
        for (std::size_t i = 0; i < output.counts[source]; ++i) {
          expected[output.offsets[source] + i] = value(source, gathers_ ? 0 : rank, i);
        }
      }
      ASSERT_EQ(output.data, expected) << "rank " << rank;
    }
  }

 private:
  static std::uint32_t value(std::size_t rank, std::size_t block, std::size_t i) {
    return static_cast<std::uint32_t>(1 + i + 1000 * (block + 1000 * rank));
  }
  RaggedTiling tiling(const RankState& state) const {
    return RaggedTiling(state.input.table(), state.output.table(), Elems{tile_});
  }

  bool advance(RankState& state) {
    const RaggedTiling tiles = tiling(state);
    if (state.tile == tiles.tiles()) return false;
    const Step& step = state.schedule.steps[state.step];
    const std::size_t block = tiles.block_count(step);
    if (tiles.has_tile(block, state.tile) && !execute(state, step, tiles, tiles.tile_count(block, state.tile).value))
      return false;
    if (++state.step == state.schedule.steps.size()) state.step = 0, ++state.tile;
    return true;
  }

  bool execute(RankState& state, const Step& step, const RaggedTiling& tiles, std::size_t count) {
    const std::int32_t rank = state.schedule.shape.rank;
    Numbers value;
    if (step.has(kRecv)) {
      std::deque<Numbers>& queue = links_[{step.recv_peer, rank}];
      if (queue.empty()) return false;
      value = queue.front();
      queue.pop_front();
      EXPECT_EQ(value.size(), count) << "both ends know the size";
    } else {
      const auto from = static_cast<std::ptrdiff_t>(tiles.offset(step.src_buffer, step.src_chunk, state.tile).value);
      value.assign(state.input.data.begin() + from,
                   state.input.data.begin() + from + static_cast<std::ptrdiff_t>(count));
    }
    if (step.has(kStore)) {
      const std::size_t to = tiles.offset(step.dst_buffer, step.dst_chunk, state.tile).value;
      for (std::size_t i = 0; i < value.size(); ++i) state.output.data.at(to + i) = value[i];
    }
    for (std::int32_t peer = 0; step.has(kSend) && peer < state.schedule.shape.ranks; ++peer) {
      const bool meant = step.send_to == PeerSet::kAll ? peer != rank : peer == step.send_peer;
      if (meant) links_[{rank, peer}].push_back(value);
    }
    return true;
  }

  std::size_t tile_;
  bool gathers_;
  std::vector<RankState> ranks_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::deque<Numbers>> links_;
};

TEST(RaggedTiling, MovesEveryElementToItsPlace) {
  std::mt19937 random(5);
  for (const Algorithm& algorithm : catalogue()) {
    if (!is_ragged_capable(algorithm)) continue;
    for (std::size_t n = 1; n <= 9; ++n) {
      for (const std::size_t tile : {1u, 3u, 8u, 1000u}) {
        std::vector<std::vector<std::size_t>> counts(n);  // of rank r's input
        for (auto& row : counts) {
          row.resize(algorithm.collective == Collective::kAllGather ? 1 : n);
          for (std::size_t& count : row) count = random() % 3 == 0 ? 0 : random() % 40;
        }
        World world(algorithm, counts, tile, random);
        ASSERT_TRUE(world.run()) << algorithm.name << " " << n;
        ASSERT_NO_FATAL_FAILURE(world.check()) << algorithm.name << " " << n;
      }
    }
  }
}

TEST(RaggedTiling, AnEmptyBlockHasOneEmptyTile) {
  const std::size_t counts[] = {0, 5, 4};
  const std::size_t offsets[] = {9, 0, 5};
  const BlockTable table{counts, offsets, 3};
  const RaggedTiling tiling(table, table, Elems{4});
  EXPECT_EQ(tiling.tiles(), 2u);
  EXPECT_TRUE(tiling.has_tile(0, 0));
  EXPECT_EQ(tiling.tile_count(0, 0), Elems{0});
  EXPECT_FALSE(tiling.has_tile(0, 1));
  EXPECT_EQ(tiling.tile_count(5, 0), Elems{4});
  EXPECT_EQ(tiling.tile_count(5, 1), Elems{1});
  EXPECT_FALSE(tiling.has_tile(4, 1)) << "a block that fills its tiles has no empty one behind them";
  EXPECT_EQ(tiling.offset(BufferId::kOutput, 2, 1), Elems{9});
}

}  // namespace
}  // namespace tutti
