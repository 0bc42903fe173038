// Ring: each rank receives from one neighbour only and sends to the other only. All-reduce is a reduce-scatter followed
// by an all-gather (Patarasuk, Yuan 2009), each step fused with the next send: 2n-1 steps, 2(n-1)/n of the data sent a
// rank, which is the least possible. Even lanes run clockwise, odd lanes anticlockwise, each on its own parts.
//
// The fused step needs a message and a free slot at once; with one slot a link all ranks would wait for one another.
//
// `tutti-plan all_reduce --ranks 4 --algo ring --lanes 1 --bytes 1M --grid` (drawing.h says how to read it):
//
//   rank 0   0 >1   <3 +3 >1   <3 +2 >1   <3 +1= >1   <3 0= >1   <3 3= >1   <3 2=
//   rank 1   1 >2   <0 +0 >2   <0 +3 >2   <0 +2= >2   <0 1= >2   <0 0= >2   <0 3=
//   rank 2   2 >3   <1 +1 >3   <1 +0 >3   <1 +3= >3   <1 2= >3   <1 1= >3   <1 0=
//   rank 3   3 >0   <2 +2 >0   <2 +1 >0   <2 +0= >0   <2 3= >0   <2 2= >0   <2 1=
#pragma once

#include "collectives/rank_circle.h"
#include "schedule/generator.h"
#include "schedule/step_builder.h"

namespace tutti::ring {

/// +1: clockwise, to higher ranks.
TUTTI_HD constexpr std::int32_t direction(std::uint32_t lane) { return lane % 2 == 0 ? 1 : -1; }

/// At step i, 1 <= i < n, what arrives holds the i ranks after this one. Clockwise these reach down to rank 0 or wrap
/// past it, so that only rank 0 itself is lower; anticlockwise they are higher ranks until they wrap.
TUTTI_HD constexpr bool own_is_left(const Shape& s, std::uint32_t lane, std::int32_t i) {
  return direction(lane) > 0 ? s.rank == 0 : s.rank + i < s.ranks;
}

TUTTI_HD constexpr std::int32_t previous(const Shape& s, std::uint32_t lane) {
  return wrap(s.rank - direction(lane), s.ranks);
}
TUTTI_HD constexpr std::int32_t next(const Shape& s, std::uint32_t lane) {
  return wrap(s.rank + direction(lane), s.ranks);
}

TUTTI_HD constexpr std::uint32_t all_reduce_steps(const Shape& s) {
  return 2 * static_cast<std::uint32_t>(s.ranks) - 1;
}
TUTTI_HD constexpr Extent all_reduce_extent(const Shape& s) {
  return Extent{static_cast<std::uint32_t>(s.lanes) * static_cast<std::uint32_t>(s.ranks), 1, 1, 0};
}
TUTTI_HD constexpr Step all_reduce_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const auto n = static_cast<std::uint32_t>(s.ranks);
  const auto at = static_cast<std::int32_t>(i);
  const std::uint32_t chunk = lane * n + static_cast<std::uint32_t>(wrap(s.rank - direction(lane) * at, s.ranks));
  StepBuilder step(lane, chunk);
  if (i == 0) return step.take(BufferId::kInput, chunk).send(next(s, lane)).step();
  step.recv(previous(s, lane));
  if (i < n) step.reduce(BufferId::kInput, chunk, own_is_left(s, lane, at));
  if (i == n - 1) step.complete();
  if (i >= n - 1) step.store(BufferId::kOutput, chunk);
  if (i < 2 * n - 2) step.send(next(s, lane));
  return step.step();
}

TUTTI_HD constexpr std::uint32_t reduce_scatter_steps(const Shape& s) { return static_cast<std::uint32_t>(s.ranks); }
TUTTI_HD constexpr Extent reduce_scatter_extent(const Shape& s) {
  return Extent{static_cast<std::uint32_t>(s.lanes), static_cast<std::uint32_t>(s.ranks), 1, 0};
}
/// The first half of the all-reduce, one chunk later, so that the last chunk to arrive is the rank's own.
TUTTI_HD constexpr Step reduce_scatter_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const auto at = static_cast<std::int32_t>(i);
  const auto block = static_cast<std::uint32_t>(wrap(s.rank - direction(lane) * (at + 1), s.ranks));
  const std::uint32_t chunk = block * static_cast<std::uint32_t>(s.lanes) + lane;
  StepBuilder step(lane, chunk);
  if (i == 0) return step.take(BufferId::kInput, chunk).send(next(s, lane)).step();
  step.recv(previous(s, lane)).reduce(BufferId::kInput, chunk, own_is_left(s, lane, at));
  const bool last = at == s.ranks - 1;
  return last ? step.complete().store(BufferId::kOutput, lane).step() : step.send(next(s, lane)).step();
}

TUTTI_HD constexpr std::uint32_t all_gather_steps(const Shape& s) { return static_cast<std::uint32_t>(s.ranks); }
TUTTI_HD constexpr Extent all_gather_extent(const Shape& s) {
  return Extent{static_cast<std::uint32_t>(s.lanes), 1, static_cast<std::uint32_t>(s.ranks), 0};
}
TUTTI_HD constexpr Step all_gather_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const auto at = static_cast<std::int32_t>(i);
  const auto block = static_cast<std::uint32_t>(wrap(s.rank - direction(lane) * at, s.ranks));
  const std::uint32_t chunk = block * static_cast<std::uint32_t>(s.lanes) + lane;
  StepBuilder step(lane, chunk);
  i == 0 ? step.take(BufferId::kInput, lane) : step.recv(previous(s, lane));
  step.store(BufferId::kOutput, chunk);
  if (at < s.ranks - 1) step.send(next(s, lane));
  return step.step();
}

inline constexpr std::int32_t kMaxLanes = 32;
inline constexpr Algorithm kAllReduce{.name = "ring",
                                      .collective = Collective::kAllReduce,
                                      .promises = {Reduces::kInOwnOrder, ByReference::kAlways, BlockSizes::kEqual},
                                      .second_lane = SecondLane::kAlways,
                                      .max_lanes = kMaxLanes,
                                      .steps = all_reduce_steps,
                                      .extent = all_reduce_extent,
                                      .step = all_reduce_step};
inline constexpr Algorithm kReduceScatter{.name = "ring",
                                          .collective = Collective::kReduceScatter,
                                          .promises = {Reduces::kInOwnOrder, ByReference::kAlways, BlockSizes::kEqual},
                                          .second_lane = SecondLane::kAlways,
                                          .max_lanes = kMaxLanes,
                                          .steps = reduce_scatter_steps,
                                          .extent = reduce_scatter_extent,
                                          .step = reduce_scatter_step};
inline constexpr Algorithm kAllGather{.name = "ring",
                                      .collective = Collective::kAllGather,
                                      .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kAny},
                                      .second_lane = SecondLane::kAlways,
                                      .max_lanes = kMaxLanes,
                                      .steps = all_gather_steps,
                                      .extent = all_gather_extent,
                                      .step = all_gather_step};

}  // namespace tutti::ring
