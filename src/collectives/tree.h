// Binomial tree (as in Thakur, Rabenseifner, Gropp 2005): places are ranks counted from the root; place v has the
// children v + 1, v + 2, v + 4, ... as long as the power is below v's lowest set bit and the child exists. Depth
// ceil(log2 n), n-1 messages in all. Broadcast serves the deepest child first; reduce takes the shallowest first, adds
// one child after the other, and needs scratch where a rank that is not the root has more than one child.
//
// `tutti-plan broadcast --ranks 8 --algo tree --grid` (drawing.h says how to read it):
//
//   rank 0   0= >4      0 >2   0 >1
//   rank 1   <0 0=
//   rank 2   <0 0= >3
//   rank 3   <2 0=
//   rank 4   <0 0= >6   0 >5
//   rank 5   <4 0=
//   rank 6   <4 0= >7
//   rank 7   <6 0=
#pragma once

#include "collectives/rank_circle.h"
#include "schedule/generator.h"
#include "schedule/step_builder.h"

namespace tutti::tree {

TUTTI_HD constexpr std::int32_t place_of(const Shape& s) { return wrap(s.rank - s.root, s.ranks); }
TUTTI_HD constexpr std::int32_t lowest_bit(std::int32_t place) { return place & -place; }

/// Places in the subtree of a child whose edge has length 2^k, the child's included.
TUTTI_HD constexpr std::int32_t places_below(const Shape& s, std::int32_t child, std::int32_t k) {
  return s.ranks - child < (1 << k) ? s.ranks - child : 1 << k;
}

TUTTI_HD constexpr std::int32_t children_of(const Shape& s) {
  const std::int32_t place = place_of(s);
  const std::int32_t edges = place == 0 ? ceil_log2(s.ranks) : floor_log2(lowest_bit(place));
  std::int32_t k = 0;
  while (k < edges && place + (1 << k) < s.ranks) ++k;
  return k;
}
TUTTI_HD constexpr std::int32_t child(const Shape& s, std::int32_t k) { return wrap(s.rank + (1 << k), s.ranks); }
TUTTI_HD constexpr std::int32_t parent(const Shape& s) { return wrap(s.rank - lowest_bit(place_of(s)), s.ranks); }

TUTTI_HD constexpr std::uint32_t steps(const Shape& s) {
  const std::int32_t children = children_of(s);
  return children == 0 ? 1 : static_cast<std::uint32_t>(children);
}

TUTTI_HD constexpr Extent broadcast_extent(const Shape& s) {
  return Extent{static_cast<std::uint32_t>(s.lanes), 1, 1, 0};
}
TUTTI_HD constexpr Step broadcast_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  const bool root = s.rank == s.root;
  StepBuilder step(lane, lane);
  if (i == 0) {
    root ? step.take(BufferId::kInput, lane) : step.recv(parent(s));
    step.store(BufferId::kOutput, lane);
  } else {
    step.take(root ? BufferId::kInput : BufferId::kOutput, lane);
  }
  const std::int32_t children = children_of(s);
  if (children > 0) step.send(child(s, children - 1 - static_cast<std::int32_t>(i)));
  return step.step();
}

/// After k children this rank's partial result holds 2^k places from its own up, and the next child's those that
/// follow. Ranks are places turned by the root, so either range may wrap past rank 0; the one that holds rank 0 is the
/// left operand.
TUTTI_HD constexpr bool own_is_left(const Shape& s, std::int32_t k) {
  if (arc_holds_zero(s.rank, 1 << k, s.ranks)) return true;
  return !arc_holds_zero(child(s, k), places_below(s, place_of(s) + (1 << k), k), s.ranks);
}
TUTTI_HD constexpr Extent reduce_extent(const Shape& s) {
  const auto lanes = static_cast<std::uint32_t>(s.lanes);
  return Extent{lanes, 1, 1, s.rank != s.root && children_of(s) > 1 ? lanes : 0};
}
TUTTI_HD constexpr Step reduce_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const std::int32_t children = children_of(s);
  const bool root = s.rank == s.root;
  StepBuilder step(lane, lane);
  if (children == 0) return step.take(BufferId::kInput, lane).send(parent(s)).step();
  const BufferId partial = root ? BufferId::kOutput : BufferId::kScratch;
  const auto k = static_cast<std::int32_t>(i);
  step.recv(child(s, k)).reduce(k == 0 ? BufferId::kInput : partial, lane, own_is_left(s, k));
  const bool last = k == children - 1;
  if (last && root) step.complete();
  return last && !root ? step.send(parent(s)).step() : step.store(partial, lane).step();
}

inline constexpr Algorithm kBroadcast{.name = "tree",
                                      .collective = Collective::kBroadcast,
                                      .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kEqual},
                                      .max_lanes = 32,
                                      .steps = steps,
                                      .extent = broadcast_extent,
                                      .step = broadcast_step};
inline constexpr Algorithm kReduce{.name = "tree",
                                   .collective = Collective::kReduce,
                                   .promises = {Reduces::kInOwnOrder, ByReference::kAlways, BlockSizes::kEqual},
                                   .max_lanes = 32,
                                   .steps = steps,
                                   .extent = reduce_extent,
                                   .step = reduce_step};

}  // namespace tutti::tree
