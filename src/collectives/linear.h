// Linear: one rank does all the work. All others send to it and wait for its one multicast message. There are 2(n - 1)
// messages to read, where all pairs have n(n - 1), and each rank has to run only twice: right where many ranks share
// few cores, so that the time of a call is the time in which the cores hand themselves over to all ranks. Where each
// rank has a core of its own, the one that works reads n - 1 messages one after the other while all others wait. (Open
// MPI calls this "linear" or "basic linear".) Operands are taken in rank order, in one pass, as in all_pairs.h. Lane l
// works on its own part.
//
// `tutti-plan all_reduce --ranks 4 --algo linear --grid` (drawing.h says how to read it):
//
//   rank 0   <* +0= >*
//   rank 1   0 >0        <0 0=
//   rank 2   0 >0        <0 0=
//   rank 3   0 >0        <0 0=
#pragma once

#include "collectives/all_pairs.h"
#include "schedule/generator.h"
#include "schedule/step_builder.h"

namespace tutti::linear {

/// The rank that does the work.
inline constexpr std::int32_t kWorker = 0;

TUTTI_HD constexpr std::uint32_t all_reduce_steps(const Shape& s) { return s.rank == kWorker ? 1 : 2; }
TUTTI_HD constexpr Step all_reduce_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  StepBuilder step(lane, lane);
  if (s.rank == kWorker) {
    step.recv_each().reduce(BufferId::kInput, lane).complete();
    return step.store(BufferId::kOutput, lane).send_all().step();
  }
  if (i == 0) return step.take(BufferId::kInput, lane).send(kWorker).step();
  return step.recv_multicast(kWorker).store(BufferId::kOutput, lane).step();
}

TUTTI_HD constexpr std::uint32_t barrier_steps(const Shape& s) { return s.ranks == 1 ? 0 : 2; }
TUTTI_HD constexpr Step barrier_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  StepBuilder step(lane, 0);
  if (s.rank == kWorker) return i == 0 ? step.recv_each().step() : step.send_all().step();
  return i == 0 ? step.send(kWorker).step() : step.recv_multicast(kWorker).step();
}

inline constexpr Algorithm kAllReduce{.name = "linear",
                                      .collective = Collective::kAllReduce,
                                      .promises = {Reduces::kInRankOrder, ByReference::kAlways, BlockSizes::kEqual},
                                      .max_lanes = all_pairs::kMaxLanes,
                                      .steps = all_reduce_steps,
                                      .extent = all_pairs::whole_extent,
                                      .step = all_reduce_step};
inline constexpr Algorithm kBarrier{.name = "linear",
                                    .collective = Collective::kBarrier,
                                    .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kEqual},
                                    .max_lanes = 1,
                                    .steps = barrier_steps,
                                    .extent = all_pairs::barrier_extent,
                                    .step = barrier_step};

}  // namespace tutti::linear
