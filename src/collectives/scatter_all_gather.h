// Scatter and all-gather: broadcast of large data (van de Geijn 1994; Thakur, Rabenseifner, Gropp 2005). The data has a
// part a place (ranks counted from the root): a binomial tree (tree.h) hands every place its part, and those of the
// places below it in the tree, then the parts go around a ring. 2S(n-1)/n bytes sent by the root, about S by others,
// whatever n is; ceil(log2 n) + n - 2 hops; at most ceil(log2 n) + n - 1 messages a rank. Nobody is sent what the tree
// brought: the root receives nothing, and a place with m parts n - m of them (as in MPICH's and others' tuned rings).
//
// `tutti-plan broadcast --ranks 4 --algo scatter_all_gather --grid` (drawing.h says how to read it):
//
//   rank 0   2x2 >2    1 >1    0 >1       3 >1       2 >1       0x4=
//   rank 1   <0 1=     1 >2    <0 0= >2   <0 3=      <0 2=
//   rank 2   <0 2x2=   3 >3    2 >3       <1 1= >3   <1 0= >3
//   rank 3   <2 3=     <2 2=   <2 1=      <2 0=
#pragma once

#include "collectives/bruck.h"
#include "collectives/rank_circle.h"
#include "collectives/tree.h"
#include "schedule/generator.h"
#include "schedule/step_builder.h"

namespace tutti::scatter_all_gather {

/// Parts that the tree brings a place: those from its own number on.
TUTTI_HD constexpr std::int32_t parts_at(const Shape& s, std::int32_t place) {
  if (place == 0) return s.ranks;
  const std::int32_t left = s.ranks - place;
  return left < tree::lowest_bit(place) ? left : tree::lowest_bit(place);
}

TUTTI_HD constexpr Extent broadcast_extent(const Shape& s) {
  const auto parts = static_cast<std::uint32_t>(s.lanes * s.ranks);
  return Extent{parts, 1, 1, 0, static_cast<std::uint32_t>(bruck::most_gathered(s.ranks))};
}

/// How many steps of one rank and lane belong together.
struct Lengths {
  std::int32_t fetch;     ///< 1: parts come from the tree
  std::int32_t children;  ///< parts go on down the tree
  std::int32_t received;  ///< parts from the ring
  std::int32_t sent;      ///< parts to the ring
  std::int32_t keep;      ///< 1: the root copies its input

  /// In step k of the ring part k is sent that comes k before the own one, and was received if it is not the own one.
  TUTTI_HD constexpr std::int32_t ring_begin() const { return sent > 0 ? 0 : 1; }
  TUTTI_HD constexpr std::int32_t ring_end() const { return received + 1 > sent ? received + 1 : sent; }
};
TUTTI_HD constexpr Lengths lengths_of(const Shape& s) {
  const std::int32_t place = tree::place_of(s);
  const std::int32_t sent = place == s.ranks - 1 ? 0 : s.ranks - parts_at(s, place + 1);
  return Lengths{place > 0 ? 1 : 0, tree::children_of(s), s.ranks - parts_at(s, place), sent, place == 0 ? 1 : 0};
}

TUTTI_HD constexpr std::uint32_t broadcast_steps(const Shape& s) {
  if (s.ranks == 1) return 1;
  const Lengths n = lengths_of(s);
  return static_cast<std::uint32_t>(n.fetch + n.children + n.ring_end() - n.ring_begin() + n.keep);
}

TUTTI_HD constexpr Step ring_step(const Shape& s, std::uint32_t lane, const Lengths& n, std::int32_t k) {
  const std::uint32_t part =
      lane * static_cast<std::uint32_t>(s.ranks) + static_cast<std::uint32_t>(wrap(tree::place_of(s) - k, s.ranks));
  StepBuilder step(lane, part);
  if (k >= 1 && k <= n.received) {
    step.recv(wrap(s.rank - 1, s.ranks)).store(BufferId::kOutput, part);
  } else {
    step.take(s.rank == s.root ? BufferId::kInput : BufferId::kOutput, part);
  }
  if (k < n.sent) step.send(wrap(s.rank + 1, s.ranks));
  return step.step();
}

TUTTI_HD constexpr Step broadcast_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const Lengths n = lengths_of(s);
  const std::int32_t place = tree::place_of(s);
  const std::uint32_t base = lane * static_cast<std::uint32_t>(s.ranks);
  auto at = static_cast<std::int32_t>(i);
  if (at < n.fetch) {
    const std::uint32_t first = base + static_cast<std::uint32_t>(place);
    return StepBuilder(lane, first)
        .recv(tree::parent(s))
        .store(BufferId::kOutput, first)
        .span(parts_at(s, place))
        .step();
  }
  at -= n.fetch;
  if (at < n.children) {
    const std::int32_t below = place + (1 << (n.children - 1 - at));
    const std::uint32_t first = base + static_cast<std::uint32_t>(below);
    StepBuilder step(lane, first);
    step.take(s.rank == s.root ? BufferId::kInput : BufferId::kOutput, first).span(parts_at(s, below));
    return step.send(tree::child(s, n.children - 1 - at)).step();
  }
  at += n.ring_begin() - n.children;
  if (at < n.ring_end()) return ring_step(s, lane, n, at);
  return StepBuilder(lane, base).take(BufferId::kInput, base).store(BufferId::kOutput, base).span(s.ranks).step();
}

inline constexpr Algorithm kBroadcast{.name = "scatter_all_gather",
                                      .collective = Collective::kBroadcast,
                                      .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kEqual},
                                      .max_lanes = 32,
                                      .steps = broadcast_steps,
                                      .extent = broadcast_extent,
                                      .step = broadcast_step};

}  // namespace tutti::scatter_all_gather
