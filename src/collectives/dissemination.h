// Dissemination barrier (Hensgen, Finkel, Manber 1988): in round k each rank tells the rank 2^k above that it, and all
// that it has heard of, have arrived. ceil(log2 n) rounds, as many messages a rank, for every n. Step i ends round i-1
// and begins round i.
//
// `tutti-plan barrier --ranks 5 --algo dissemination --grid` (drawing.h says how to read it):
//
//   rank 0   o >1   <4 o >2   <3 o >4   <1 o
//   rank 1   o >2   <0 o >3   <4 o >0   <2 o
//   rank 2   o >3   <1 o >4   <0 o >1   <3 o
//   rank 3   o >4   <2 o >0   <1 o >2   <4 o
//   rank 4   o >0   <3 o >1   <2 o >3   <0 o
#pragma once

#include "collectives/rank_circle.h"
#include "schedule/generator.h"
#include "schedule/step_builder.h"

namespace tutti::dissemination {

TUTTI_HD constexpr std::uint32_t barrier_steps(const Shape& s) {
  return s.ranks == 1 ? 0 : static_cast<std::uint32_t>(ceil_log2(s.ranks)) + 1;
}
TUTTI_HD constexpr Extent barrier_extent(const Shape&) { return Extent{1, 0, 0, 0}; }
TUTTI_HD constexpr Step barrier_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  const auto round = static_cast<std::int32_t>(i);
  StepBuilder step(lane, 0);
  if (round > 0) step.recv(wrap(s.rank - (1 << (round - 1)), s.ranks));
  if (round < ceil_log2(s.ranks)) step.send(wrap(s.rank + (1 << round), s.ranks));
  return step.step();
}

inline constexpr Algorithm kBarrier{.name = "dissemination",
                                    .collective = Collective::kBarrier,
                                    .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kEqual},
                                    .max_lanes = 1,
                                    .steps = barrier_steps,
                                    .extent = barrier_extent,
                                    .step = barrier_step};

}  // namespace tutti::dissemination
