// Double binary tree (Sanders, Speck, Traeff 2009, "Two-tree algorithms for full bandwidth broadcast, reduction and
// scan"): two binary trees over the ranks that are not the root, such that no rank has children in both. Each tree
// carries half of the data, so every rank sends and receives at the full rate of its links, at a depth of
// ceil(log2 n) instead of the chain's n-1. Tiles follow one another down the trees (or up).
//
//   broadcast    at most S sent by a rank, S/2 to each of two children, and S received
//   reduce       the same upwards
//   all-reduce   reduce to rank 0, then broadcast from there: 2S sent by a rank at most, half of that at rank 0. A tile
//                has kWaves pieces a tree, so that some go down while others come up
//
// Positions are numbers in a tree, 0 the root. A tree is in order: position w with lowest bit b has the positions
// w-b+1 .. w+b-1 below it, halves on both sides, so its children's contributions are ranges of positions, too.
// Positions of the first tree are places (ranks counted from the root). Those of the second are places reflected, if
// the number of places without the root is even, else shifted by one; either way even places, which have children,
// change with odd ones, which have none.
//
// `tutti-plan broadcast --ranks 6 --algo double_tree --grid` (drawing.h says how to read it):
//
//   rank 0   0= >4      1= >5
//   rank 1   <2 0=      <5 1=
//   rank 2   <4 0= >1   0 >3    <3 1=
//   rank 3   <5 1= >2   1 >4    <2 0=
//   rank 4   <0 0= >2   0 >5    <3 1=
//   rank 5   <0 1= >3   1 >1    <4 0=
#pragma once

#include "collectives/rank_circle.h"
#include "schedule/generator.h"
#include "schedule/step_builder.h"

namespace tutti::double_tree {

inline constexpr std::uint32_t kTrees = 2;
/// Pieces of a tile in each tree of an all-reduce. More fill the trees better and cost messages.
inline constexpr std::uint32_t kWaves = 4;

TUTTI_HD constexpr std::int32_t position_of(const Shape& s, std::uint32_t tree, std::int32_t place) {
  if (tree == 0 || place == 0) return place;
  if (s.ranks % 2 == 1) return s.ranks - place;
  return place == 1 ? s.ranks - 1 : place - 1;
}
TUTTI_HD constexpr std::int32_t rank_at(const Shape& s, std::uint32_t tree, std::int32_t position) {
  std::int32_t place = position;
  if (tree != 0 && position != 0) {
    const std::int32_t shifted = position == s.ranks - 1 ? 1 : position + 1;
    place = s.ranks % 2 == 1 ? s.ranks - position : shifted;
  }
  return wrap(s.root + place, s.ranks);
}

/// A rank in one tree. The root has one child, above it.
struct Node {
  std::int32_t position = 0;
  std::int32_t reach = 0;  ///< positions that far on both sides, its own not counted, are below it or would be
  std::int32_t parent = -1;
  std::int32_t lower = -1;  ///< the child at lower positions, -1: none
  std::int32_t upper = -1;

  TUTTI_HD constexpr std::int32_t children() const { return (lower >= 0 ? 1 : 0) + (upper >= 0 ? 1 : 0); }
};
TUTTI_HD constexpr Node node_of(const Shape& s, std::uint32_t tree) {
  Node node;
  node.position = position_of(s, tree, wrap(s.rank - s.root, s.ranks));
  const std::int32_t w = node.position;
  const std::int32_t bit = w == 0 ? 1 << ceil_log2(s.ranks) : w & -w;
  node.reach = bit - 1;
  if (w != 0) {
    node.parent = (w ^ bit) | (bit << 1);
    if (node.parent >= s.ranks) node.parent = w ^ bit;  // the tree is cut off above
    if (bit > 1) node.lower = w - bit / 2;
  }
  std::int32_t half = bit / 2;
  while (half > 0 && w + half >= s.ranks) half /= 2;
  if (half > 0) node.upper = w + half;
  return node;
}

/// The lowest of the ranks at places first .. last; `ranks` if there are none.
TUTTI_HD constexpr std::int32_t lowest_at_places(const Shape& s, std::int32_t first, std::int32_t last) {
  if (first > last) return s.ranks;
  const std::int32_t zero = wrap(-s.root, s.ranks);
  return first <= zero && zero <= last ? 0 : wrap(s.root + first, s.ranks);
}
/// The lowest of the ranks at positions first .. last of a tree, 1 <= first <= last < ranks.
TUTTI_HD constexpr std::int32_t lowest_rank(const Shape& s, std::uint32_t tree, std::int32_t first, std::int32_t last) {
  if (tree == 0) return lowest_at_places(s, first, last);
  if (s.ranks % 2 == 1) return lowest_at_places(s, s.ranks - last, s.ranks - first);
  if (last < s.ranks - 1) return lowest_at_places(s, first + 1, last + 1);
  const std::int32_t most = lowest_at_places(s, first + 1, last);
  const std::int32_t turned = lowest_at_places(s, 1, 1);
  return most < turned ? most : turned;
}
/// Whether what this rank has holds a lower rank than what a child brings. The lower child comes first.
TUTTI_HD constexpr bool own_is_left(const Shape& s, std::uint32_t tree, const Node& node, bool upper) {
  const std::int32_t w = node.position;
  if (!upper) return s.rank < lowest_rank(s, tree, w - node.reach, w - 1);
  const std::int32_t end = w + node.reach < s.ranks ? w + node.reach : s.ranks - 1;
  const std::int32_t brought = lowest_rank(s, tree, w + 1, end);
  return (w == 0 ? s.rank : lowest_rank(s, tree, w - node.reach, w)) < brought;
}

/// Steps of one piece in one tree, either way: one per child, or the one message of a rank that has none.
TUTTI_HD constexpr std::uint32_t piece_steps(const Node& node) { return node.children() == 2 ? 2 : 1; }

/// Up: the children's contributions are added one after the other to the own one.
TUTTI_HD constexpr Step up_step(const Shape& s, std::uint32_t tree, const Node& node, StepBuilder step,
                                std::uint32_t chunk, BufferId partial, std::uint32_t partial_chunk, std::uint32_t at) {
  const bool upper = node.lower < 0 || at == 1;
  const bool last = at + 1 == piece_steps(node);
  if (node.children() == 0) {
    step.take(BufferId::kInput, chunk);
  } else {
    const bool first = at == 0;
    step.recv(rank_at(s, tree, upper ? node.upper : node.lower));
    step.reduce(first ? BufferId::kInput : partial, first ? chunk : partial_chunk, own_is_left(s, tree, node, upper));
  }
  if (!last) return step.store(partial, partial_chunk).step();
  if (node.parent >= 0) return step.send(rank_at(s, tree, node.parent)).step();
  return step.complete().store(BufferId::kOutput, chunk).step();
}

/// Down: `own` is where the root has the result.
TUTTI_HD constexpr Step down_step(const Shape& s, std::uint32_t tree, const Node& node, StepBuilder step,
                                  std::uint32_t chunk, BufferId own, std::uint32_t at) {
  const bool root = node.parent < 0;
  if (at > 0) {
    step.take(BufferId::kOutput, chunk);
  } else {
    root ? step.take(own, chunk) : step.recv(rank_at(s, tree, node.parent));
    if (!root || own != BufferId::kOutput) step.store(BufferId::kOutput, chunk);
  }
  if (node.children() == 0) return step.step();
  return step.send(rank_at(s, tree, at == 0 && node.lower >= 0 ? node.lower : node.upper)).step();
}

/// A rank's place in both trees. Going up, the tree without children here comes first, because nothing is waited for;
/// going down, the one with children, because others wait.
struct Both {
  Node nodes[kTrees];
  std::uint32_t up_first = 0;
  std::uint32_t down_first = 0;
  std::uint32_t pair_steps = 0;  ///< of a piece in both trees
};
TUTTI_HD constexpr Both both_of(const Shape& s) {
  Both both{{node_of(s, 0), node_of(s, 1)}};
  const bool has_first = both.nodes[0].children() > 0;
  const bool has_second = both.nodes[1].children() > 0;
  both.up_first = has_first && !has_second ? 1 : 0;
  both.down_first = !has_first && has_second ? 1 : 0;
  both.pair_steps = piece_steps(both.nodes[0]) + piece_steps(both.nodes[1]);
  return both;
}

/// The i-th step of a piece in both trees: the one tree's steps, then the other's.
struct Turn {
  std::uint32_t tree = 0;
  std::uint32_t at = 0;
};
TUTTI_HD constexpr Turn turn_of(const Both& both, std::uint32_t first, std::uint32_t i) {
  const std::uint32_t begun = piece_steps(both.nodes[first]);
  return i < begun ? Turn{first, i} : Turn{1 - first, i - begun};
}

TUTTI_HD constexpr std::uint32_t steps(const Shape& s) { return s.ranks == 1 ? 1 : both_of(s).pair_steps; }
TUTTI_HD constexpr std::uint32_t lanes_of(const Shape& s) { return static_cast<std::uint32_t>(s.lanes); }

/// One rank alone copies in one step, so it needs one part a lane.
TUTTI_HD constexpr std::uint32_t parts_of(const Shape& s, std::uint32_t pieces) {
  return lanes_of(s) * (s.ranks == 1 ? 1 : kTrees * pieces);
}

TUTTI_HD constexpr Extent broadcast_extent(const Shape& s) { return Extent{parts_of(s, 1), 1, 1, 0}; }
TUTTI_HD constexpr Step broadcast_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const Both both = both_of(s);
  const Turn turn = turn_of(both, both.down_first, i);
  const std::uint32_t chunk = lane * kTrees + turn.tree;
  return down_step(s, turn.tree, both.nodes[turn.tree], StepBuilder(lane, chunk), chunk, BufferId::kInput, turn.at);
}

TUTTI_HD constexpr Extent reduce_extent(const Shape& s) {
  const Both both = both_of(s);
  const bool adds = both.nodes[0].children() > 1 || both.nodes[1].children() > 1;
  return Extent{parts_of(s, 1), 1, 1, adds ? lanes_of(s) : 0};
}
TUTTI_HD constexpr Step reduce_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const Both both = both_of(s);
  const Turn turn = turn_of(both, both.up_first, i);
  const std::uint32_t chunk = lane * kTrees + turn.tree;
  return up_step(s, turn.tree, both.nodes[turn.tree], StepBuilder(lane, chunk), chunk, BufferId::kScratch, lane,
                 turn.at);
}

TUTTI_HD constexpr std::uint32_t all_reduce_steps(const Shape& s) {
  return s.ranks == 1 ? 1 : 2 * kWaves * both_of(s).pair_steps;
}
TUTTI_HD constexpr Extent all_reduce_extent(const Shape& s) { return Extent{parts_of(s, kWaves), 1, 1, 0}; }
/// All pieces go up before the first comes down: a rank that waits for a piece from above would keep what is below
/// waiting.
TUTTI_HD constexpr Step all_reduce_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const Both both = both_of(s);
  const bool up = i < kWaves * both.pair_steps;
  const std::uint32_t wave = i / both.pair_steps % kWaves;
  const Turn turn = turn_of(both, up ? both.up_first : both.down_first, i % both.pair_steps);
  const std::uint32_t chunk = (lane * kTrees + turn.tree) * kWaves + wave;
  const Node& node = both.nodes[turn.tree];
  const StepBuilder step(lane, chunk);
  return up ? up_step(s, turn.tree, node, step, chunk, BufferId::kOutput, chunk, turn.at)
            : down_step(s, turn.tree, node, step, chunk, BufferId::kOutput, turn.at);
}

inline constexpr Algorithm kBroadcast{.name = "double_tree",
                                      .collective = Collective::kBroadcast,
                                      .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kEqual},
                                      .max_lanes = 32,
                                      .steps = steps,
                                      .extent = broadcast_extent,
                                      .step = broadcast_step};
inline constexpr Algorithm kReduce{.name = "double_tree",
                                   .collective = Collective::kReduce,
                                   .promises = {Reduces::kInOwnOrder, ByReference::kAlways, BlockSizes::kEqual},
                                   .max_lanes = 32,
                                   .steps = steps,
                                   .extent = reduce_extent,
                                   .step = reduce_step};
inline constexpr Algorithm kAllReduce{.name = "double_tree",
                                      .collective = Collective::kAllReduce,
                                      .promises = {Reduces::kInOwnOrder, ByReference::kAlways, BlockSizes::kEqual},
                                      .max_lanes = 32,
                                      .steps = all_reduce_steps,
                                      .extent = all_reduce_extent,
                                      .step = all_reduce_step};

}  // namespace tutti::double_tree
