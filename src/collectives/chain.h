// Chain: root, root+1, ... root-1, each passing on what it got. Depth n-1, one message a rank and tile. Tiles follow
// one another down the chain (a sender runs ahead as far as its credits go), so for large data the time is that of one
// copy and the depth hardly counts. Broadcast runs down the chain; reduce runs up, each rank adding its own and storing
// nothing but at the root.
//
// `tutti-plan reduce --ranks 4 --algo chain --grid` (drawing.h says how to read it):
//
//   rank 0   <1 +0=
//   rank 1   <2 +0 >0
//   rank 2   <3 +0 >1
//   rank 3   0 >2
#pragma once

#include "collectives/rank_circle.h"
#include "schedule/generator.h"
#include "schedule/step_builder.h"

namespace tutti::chain {

TUTTI_HD constexpr std::uint32_t steps(const Shape&) { return 1; }
TUTTI_HD constexpr Extent extent(const Shape& s) { return Extent{static_cast<std::uint32_t>(s.lanes), 1, 1, 0}; }

TUTTI_HD constexpr std::int32_t up(const Shape& s) { return wrap(s.rank - 1, s.ranks); }
TUTTI_HD constexpr std::int32_t down(const Shape& s) { return wrap(s.rank + 1, s.ranks); }
TUTTI_HD constexpr bool is_root(const Shape& s) { return s.rank == s.root; }
TUTTI_HD constexpr bool is_tail(const Shape& s) { return down(s) == s.root; }

TUTTI_HD constexpr Step broadcast_step(const Shape& s, std::uint32_t lane, std::uint32_t) {
  StepBuilder step(lane, lane);
  is_root(s) ? step.take(BufferId::kInput, lane) : step.recv(up(s));
  step.store(BufferId::kOutput, lane);
  if (!is_tail(s)) step.send(down(s));
  return step.step();
}

/// What arrives holds the ranks from the next one down to the tail; they wrap past rank 0 if this rank is root or above
/// it.
TUTTI_HD constexpr Step reduce_step(const Shape& s, std::uint32_t lane, std::uint32_t) {
  if (s.ranks == 1) return copy_step(lane);
  StepBuilder step(lane, lane);
  if (is_tail(s)) return step.take(BufferId::kInput, lane).send(up(s)).step();
  const bool below_holds_zero = s.root > 0 && s.rank >= s.root;
  step.recv(down(s)).reduce(BufferId::kInput, lane, !below_holds_zero);
  return is_root(s) ? step.complete().store(BufferId::kOutput, lane).step() : step.send(up(s)).step();
}

inline constexpr Algorithm kBroadcast{.name = "chain",
                                      .collective = Collective::kBroadcast,
                                      .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kEqual},
                                      .tiles = Tiles::kDownRanks,
                                      .second_lane = SecondLane::kBetweenHosts,
                                      .max_lanes = 32,
                                      .steps = steps,
                                      .extent = extent,
                                      .step = broadcast_step};
inline constexpr Algorithm kReduce{.name = "chain",
                                   .collective = Collective::kReduce,
                                   .promises = {Reduces::kInOwnOrder, ByReference::kAlways, BlockSizes::kEqual},
                                   .tiles = Tiles::kDownRanks,
                                   .max_lanes = 32,
                                   .steps = steps,
                                   .extent = extent,
                                   .step = reduce_step};

}  // namespace tutti::chain
