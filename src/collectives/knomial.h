// k-nomial tree: the binomial tree (tree.h, radix 2) with more children a rank and less depth. Places are ranks counted
// from the root, written in base k; a place's parent is the place without its lowest digit that is not 0. Textbook
// (Thakur, Rabenseifner, Gropp 2005 for k = 2; MPICH and UCC for others). Depth ceil(log_k n), at most
// (k-1) ceil(log_k n) messages of the whole data at the root, n-1 in all: right where a hop costs more than a message,
// as between hosts. Broadcast serves the deepest child first; reduce takes the nearest first, adds one child after the
// other, and needs scratch where a rank that is not the root has more than one child.
//
// `tutti-plan broadcast --ranks 9 --algo knomial_4 --grid` (drawing.h says how to read it):
//
//   rank 0   0= >8      0 >4   0 >3   0 >2   0 >1
//   rank 1   <0 0=
//   rank 2   <0 0=
//   rank 3   <0 0=
//   rank 4   <0 0= >7   0 >6   0 >5
//   rank 5   <4 0=
//   rank 6   <4 0=
//   rank 7   <4 0=
//   rank 8   <0 0=
#pragma once

#include "collectives/rank_circle.h"
#include "schedule/generator.h"
#include "schedule/step_builder.h"

namespace tutti::knomial {

TUTTI_HD constexpr std::int32_t place_of(const Shape& s) { return wrap(s.rank - s.root, s.ranks); }

/// The way to a child: it is `distance` places up, and its subtree holds at most `span` places, its own included.
struct Edge {
  std::int32_t distance = 0;  ///< 0: there is no such child
  std::int32_t span = 0;
};

/// A place's children, from the nearest on; `index` counts them.
template <std::int32_t kRadix>
TUTTI_HD constexpr Edge edge(const Shape& s, std::int32_t place, std::int32_t index) {
  for (std::int32_t power = 1; power < s.ranks && place / power % kRadix == 0; power *= kRadix) {
    for (std::int32_t digit = 1; digit < kRadix && place + digit * power < s.ranks; ++digit) {
      if (index-- == 0) return Edge{digit * power, power};
    }
  }
  return Edge{};
}
template <std::int32_t kRadix>
TUTTI_HD constexpr std::int32_t children_of(const Shape& s, std::int32_t place) {
  std::int32_t children = 0;
  for (std::int32_t power = 1; power < s.ranks && place / power % kRadix == 0; power *= kRadix) {
    for (std::int32_t digit = 1; digit < kRadix && place + digit * power < s.ranks; ++digit) ++children;
  }
  return children;
}
/// The parent's distance; the place is not the root.
template <std::int32_t kRadix>
TUTTI_HD constexpr std::int32_t distance_up(std::int32_t place) {
  std::int32_t power = 1;
  while (place / power % kRadix == 0) power *= kRadix;
  return place / power % kRadix * power;
}
/// Places of a child's subtree.
TUTTI_HD constexpr std::int32_t places_below(const Shape& s, std::int32_t place, const Edge& edge) {
  const std::int32_t left = s.ranks - place - edge.distance;
  return left < edge.span ? left : edge.span;
}

template <std::int32_t kRadix>
TUTTI_HD constexpr std::int32_t parent(const Shape& s) {
  return wrap(s.rank - distance_up<kRadix>(place_of(s)), s.ranks);
}
TUTTI_HD constexpr std::int32_t child(const Shape& s, const Edge& edge) {
  return wrap(s.rank + edge.distance, s.ranks);
}

template <std::int32_t kRadix>
TUTTI_HD constexpr std::uint32_t steps(const Shape& s) {
  const std::int32_t children = children_of<kRadix>(s, place_of(s));
  return children == 0 ? 1 : static_cast<std::uint32_t>(children);
}

TUTTI_HD constexpr Extent broadcast_extent(const Shape& s) {
  return Extent{static_cast<std::uint32_t>(s.lanes), 1, 1, 0};
}
template <std::int32_t kRadix>
TUTTI_HD constexpr Step broadcast_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  const bool root = s.rank == s.root;
  StepBuilder step(lane, lane);
  if (i == 0) {
    root ? step.take(BufferId::kInput, lane) : step.recv(parent<kRadix>(s));
    step.store(BufferId::kOutput, lane);
  } else {
    step.take(root ? BufferId::kInput : BufferId::kOutput, lane);
  }
  const std::int32_t place = place_of(s);
  const std::int32_t last = children_of<kRadix>(s, place) - 1;
  if (last >= 0) step.send(child(s, edge<kRadix>(s, place, last - static_cast<std::int32_t>(i))));
  return step.step();
}

/// Before a child at distance d this rank's partial result holds d places from its own up, and the child's those that
/// follow. Ranks are places turned by the root, so either range may wrap past rank 0; the one that holds rank 0 is the
/// left operand.
TUTTI_HD constexpr bool own_is_left(const Shape& s, const Edge& edge) {
  if (arc_holds_zero(s.rank, edge.distance, s.ranks)) return true;
  return !arc_holds_zero(child(s, edge), places_below(s, place_of(s), edge), s.ranks);
}
template <std::int32_t kRadix>
TUTTI_HD constexpr Extent reduce_extent(const Shape& s) {
  const auto lanes = static_cast<std::uint32_t>(s.lanes);
  return Extent{lanes, 1, 1, s.rank != s.root && children_of<kRadix>(s, place_of(s)) > 1 ? lanes : 0};
}
template <std::int32_t kRadix>
TUTTI_HD constexpr Step reduce_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const std::int32_t place = place_of(s);
  const std::int32_t children = children_of<kRadix>(s, place);
  const bool root = s.rank == s.root;
  StepBuilder step(lane, lane);
  if (children == 0) return step.take(BufferId::kInput, lane).send(parent<kRadix>(s)).step();
  const BufferId partial = root ? BufferId::kOutput : BufferId::kScratch;
  const auto at = static_cast<std::int32_t>(i);
  const Edge from = edge<kRadix>(s, place, at);
  step.recv(child(s, from)).reduce(at == 0 ? BufferId::kInput : partial, lane, own_is_left(s, from));
  const bool last = at == children - 1;
  if (last && root) step.complete();
  return last && !root ? step.send(parent<kRadix>(s)).step() : step.store(partial, lane).step();
}

template <std::int32_t kRadix>
constexpr Algorithm broadcast(const char* name) {
  return Algorithm{.name = name,
                   .collective = Collective::kBroadcast,
                   .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kEqual},
                   .max_lanes = 32,
                   .steps = steps<kRadix>,
                   .extent = broadcast_extent,
                   .step = broadcast_step<kRadix>};
}
template <std::int32_t kRadix>
constexpr Algorithm reduce(const char* name) {
  return Algorithm{.name = name,
                   .collective = Collective::kReduce,
                   .promises = {Reduces::kInOwnOrder, ByReference::kAlways, BlockSizes::kEqual},
                   .max_lanes = 32,
                   .steps = steps<kRadix>,
                   .extent = reduce_extent<kRadix>,
                   .step = reduce_step<kRadix>};
}

inline constexpr Algorithm kBroadcast4 = broadcast<4>("knomial_4");
inline constexpr Algorithm kBroadcast8 = broadcast<8>("knomial_8");
inline constexpr Algorithm kReduce4 = reduce<4>("knomial_4");
inline constexpr Algorithm kReduce8 = reduce<8>("knomial_8");

}  // namespace tutti::knomial
