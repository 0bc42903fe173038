// All pairs: every rank talks to every other directly. The least depth of all, and the most messages: right for few
// ranks and for small sizes. Reductions take all n operands in one pass, in rank order: one rounding, and the same
// expression whatever the number of lanes, so these algorithms also serve the deterministic mode. Lane l works on its
// own parts.
//
//   one shot    2 steps: my whole chunk to all by one multicast message; reduce what all sent.
//   two shots   2n-1 steps: chunk p of my input to each rank p; reduce my own chunk and send the result to all;
//               store the others' results. 2(n-1)/n of the data read a rank, as in a ring, at a depth of 2 instead of
//               2(n-1).
//   gather      each rank's block straight to the root, which has the n-1 messages to read; scatter the other way.
//   all to all  2n-1 steps: block p of my input to each rank p, all of them; then what all sent to me. Every block of a
//               tile leaves before one arrives, so input and output may be one, and a link needs one message of credit.
//               (n-1)/n of the data sent a rank, which is the least possible; textbook (Thakur, Rabenseifner, Gropp
//               2005, "irecv-isend"). All n-1 links of a rank are in use at once: for many ranks pairwise.h.
//
// Each rank starts with its right neighbour, so that the n ranks do not all write to rank 0 first; who receives one by
// one from all that sent at once starts with the left neighbour, whose message was the first to leave.
//
// `tutti-plan all_reduce --ranks 4 --algo all_pairs_two_shot --grid` (drawing.h says how to read it):
//
//   rank 0   1 >1   2 >2   3 >3   <* +0= >*   <1 1=   <2 2=   <3 3=
//   rank 1   2 >2   3 >3   0 >0   <* +1= >*   <2 2=   <3 3=   <0 0=
//   rank 2   3 >3   0 >0   1 >1   <* +2= >*   <3 3=   <0 0=   <1 1=
//   rank 3   0 >0   1 >1   2 >2   <* +3= >*   <0 0=   <1 1=   <2 2=
#pragma once

#include "collectives/rank_circle.h"
#include "schedule/generator.h"
#include "schedule/step_builder.h"

namespace tutti::all_pairs {

/// The peer at place k of the round that starts at the right neighbour; 0 <= k < n-1, and k = n-1 is the rank itself.
TUTTI_HD constexpr std::int32_t peer_at(const Shape& s, std::uint32_t k) {
  return wrap(s.rank + 1 + static_cast<std::int32_t>(k), s.ranks);
}
TUTTI_HD constexpr std::uint32_t lanes_of(const Shape& s) { return static_cast<std::uint32_t>(s.lanes); }
TUTTI_HD constexpr std::uint32_t ranks_of(const Shape& s) { return static_cast<std::uint32_t>(s.ranks); }

/// One block in, one block out, a part a lane: one-shot all-reduce, broadcast, reduce.
TUTTI_HD constexpr Extent whole_extent(const Shape& s) { return Extent{lanes_of(s), 1, 1, 0}; }

TUTTI_HD constexpr std::uint32_t all_reduce_steps(const Shape& s) { return s.ranks == 1 ? 1 : 2; }
TUTTI_HD constexpr Step all_reduce_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  StepBuilder step(lane, lane);
  if (i == 0) return step.take(BufferId::kInput, lane).send_all().step();
  return step.recv_each_multicast().reduce(BufferId::kInput, lane).complete().store(BufferId::kOutput, lane).step();
}

TUTTI_HD constexpr std::uint32_t two_shot_steps(const Shape& s) { return 2 * ranks_of(s) - 1; }
TUTTI_HD constexpr Extent two_shot_extent(const Shape& s) { return Extent{lanes_of(s) * ranks_of(s), 1, 1, 0}; }
TUTTI_HD constexpr Step two_shot_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const std::uint32_t n = ranks_of(s);
  if (i < n - 1) {
    const std::uint32_t chunk = lane * n + static_cast<std::uint32_t>(peer_at(s, i));
    return StepBuilder(lane, chunk).take(BufferId::kInput, chunk).send(peer_at(s, i)).step();
  }
  if (i == n - 1) {
    const std::uint32_t own = lane * n + static_cast<std::uint32_t>(s.rank);
    StepBuilder step(lane, own);
    step.recv_each().reduce(BufferId::kInput, own).complete();
    return step.store(BufferId::kOutput, own).send_all().step();
  }
  const std::int32_t peer = peer_at(s, i - n);
  const std::uint32_t chunk = lane * n + static_cast<std::uint32_t>(peer);
  return StepBuilder(lane, chunk).recv_multicast(peer).store(BufferId::kOutput, chunk).step();
}

TUTTI_HD constexpr std::uint32_t reduce_scatter_steps(const Shape& s) { return ranks_of(s); }
TUTTI_HD constexpr Extent reduce_scatter_extent(const Shape& s) { return Extent{lanes_of(s), ranks_of(s), 1, 0}; }
TUTTI_HD constexpr Step reduce_scatter_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  if (i < ranks_of(s) - 1) {
    const std::uint32_t chunk = static_cast<std::uint32_t>(peer_at(s, i)) * lanes_of(s) + lane;
    return StepBuilder(lane, chunk).take(BufferId::kInput, chunk).send(peer_at(s, i)).step();
  }
  const std::uint32_t own = static_cast<std::uint32_t>(s.rank) * lanes_of(s) + lane;
  StepBuilder step(lane, own);
  return step.recv_each().reduce(BufferId::kInput, own).complete().store(BufferId::kOutput, lane).step();
}

TUTTI_HD constexpr std::uint32_t all_gather_steps(const Shape& s) { return ranks_of(s); }
TUTTI_HD constexpr Extent all_gather_extent(const Shape& s) { return Extent{lanes_of(s), 1, ranks_of(s), 0}; }
TUTTI_HD constexpr Step all_gather_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const std::int32_t from = i == 0 ? s.rank : peer_at(s, i - 1);
  const std::uint32_t chunk = static_cast<std::uint32_t>(from) * lanes_of(s) + lane;
  StepBuilder step(lane, chunk);
  if (i == 0) return step.take(BufferId::kInput, lane).store(BufferId::kOutput, chunk).send_all().step();
  return step.recv_multicast(from).store(BufferId::kOutput, chunk).step();
}

TUTTI_HD constexpr std::uint32_t broadcast_steps(const Shape&) { return 1; }
TUTTI_HD constexpr Step broadcast_step(const Shape& s, std::uint32_t lane, std::uint32_t) {
  if (s.ranks == 1) return copy_step(lane);
  StepBuilder step(lane, lane);
  if (s.rank != s.root) return step.recv_multicast(s.root).store(BufferId::kOutput, lane).step();
  return step.take(BufferId::kInput, lane).store(BufferId::kOutput, lane).send_all().step();
}

TUTTI_HD constexpr std::uint32_t reduce_steps(const Shape&) { return 1; }
TUTTI_HD constexpr Step reduce_step(const Shape& s, std::uint32_t lane, std::uint32_t) {
  if (s.ranks == 1) return copy_step(lane);
  StepBuilder step(lane, lane);
  if (s.rank != s.root) return step.take(BufferId::kInput, lane).send(s.root).step();
  return step.recv_each().reduce(BufferId::kInput, lane).complete().store(BufferId::kOutput, lane).step();
}

/// A message carries its sender's block of the root's output.
TUTTI_HD constexpr std::uint32_t gather_steps(const Shape& s) { return s.rank == s.root ? ranks_of(s) : 1; }
TUTTI_HD constexpr Step gather_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const std::int32_t from = s.rank != s.root ? s.rank : peer_at(s, i);  // place n-1 of the round is the rank itself
  const std::uint32_t chunk = static_cast<std::uint32_t>(from) * lanes_of(s) + lane;
  StepBuilder step(lane, chunk);
  if (s.rank != s.root) return step.take(BufferId::kInput, lane).send(s.root).step();
  if (from != s.rank) return step.recv(from).store(BufferId::kOutput, chunk).step();
  return step.take(BufferId::kInput, lane).store(BufferId::kOutput, chunk).aside().step();
}

/// A message carries its receiver's block of the root's input.
TUTTI_HD constexpr std::uint32_t scatter_steps(const Shape& s) { return s.rank == s.root ? ranks_of(s) : 1; }
TUTTI_HD constexpr Step scatter_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const std::int32_t to = s.rank != s.root || i == ranks_of(s) - 1 ? s.rank : peer_at(s, i);
  const std::uint32_t chunk = static_cast<std::uint32_t>(to) * lanes_of(s) + lane;
  StepBuilder step(lane, chunk);
  if (s.rank != s.root) return step.recv(s.root).store(BufferId::kOutput, lane).step();
  step.take(BufferId::kInput, chunk);
  return to == s.rank ? step.store(BufferId::kOutput, lane).aside().step() : step.send(to).step();
}

TUTTI_HD constexpr std::uint32_t all_to_all_steps(const Shape& s) { return 2 * ranks_of(s) - 1; }
TUTTI_HD constexpr Extent all_to_all_extent(const Shape& s) { return Extent{lanes_of(s), ranks_of(s), ranks_of(s), 0}; }
/// The chunk of the result that rank `from` has for rank `to`: the result of all ranks together has n * n blocks.
TUTTI_HD constexpr std::uint32_t pair_chunk(const Shape& s, std::int32_t from, std::int32_t to, std::uint32_t lane) {
  return (static_cast<std::uint32_t>(from) * ranks_of(s) + static_cast<std::uint32_t>(to)) * lanes_of(s) + lane;
}
/// A rank's way to or from one peer of an all-to-all.
TUTTI_HD constexpr Step exchange_step(const Shape& s, std::uint32_t lane, std::int32_t peer, bool sends) {
  const std::uint32_t block = static_cast<std::uint32_t>(peer) * lanes_of(s) + lane;
  StepBuilder step(lane, sends ? pair_chunk(s, s.rank, peer, lane) : pair_chunk(s, peer, s.rank, lane));
  if (sends) return step.take(BufferId::kInput, block).send(peer).step();
  return step.recv(peer).store(BufferId::kOutput, block).step();
}
/// The copy of a rank's own block.
TUTTI_HD constexpr StepBuilder own_block(const Shape& s, std::uint32_t lane) {
  const std::uint32_t block = static_cast<std::uint32_t>(s.rank) * lanes_of(s) + lane;
  StepBuilder step(lane, pair_chunk(s, s.rank, s.rank, lane));
  return step.take(BufferId::kInput, block).store(BufferId::kOutput, block);
}
TUTTI_HD constexpr Step all_to_all_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const std::uint32_t n = ranks_of(s);
  if (i < n - 1) return exchange_step(s, lane, peer_at(s, i), true);
  if (i < 2 * n - 2) return exchange_step(s, lane, peer_at(s, 2 * n - 3 - i), false);
  return own_block(s, lane).aside().step();
}

/// A barrier has no buffers: its messages are tokens of zero bytes.
TUTTI_HD constexpr Extent barrier_extent(const Shape&) { return Extent{1, 0, 0, 0}; }
TUTTI_HD constexpr std::uint32_t barrier_steps(const Shape& s) { return s.ranks == 1 ? 0 : 2; }
TUTTI_HD constexpr Step barrier_step(const Shape&, std::uint32_t lane, std::uint32_t i) {
  StepBuilder step(lane, 0);
  return i == 0 ? step.send_all().step() : step.recv_each_multicast().step();
}

inline constexpr std::int32_t kMaxLanes = 32;
inline constexpr Algorithm kAllReduce{.name = "all_pairs",
                                      .collective = Collective::kAllReduce,
                                      .promises = {Reduces::kInRankOrder, ByReference::kOutOfPlace, BlockSizes::kEqual},
                                      .max_lanes = kMaxLanes,
                                      .steps = all_reduce_steps,
                                      .extent = whole_extent,
                                      .step = all_reduce_step};
inline constexpr Algorithm kAllReduceTwoShot{
    .name = "all_pairs_two_shot",
    .collective = Collective::kAllReduce,
    .promises = {Reduces::kInRankOrder, ByReference::kAlways, BlockSizes::kEqual},
    .tiles = Tiles::kInCache,
    .second_lane = SecondLane::kBetweenHosts,
    .max_lanes = kMaxLanes,
    .steps = two_shot_steps,
    .extent = two_shot_extent,
    .step = two_shot_step};
inline constexpr Algorithm kReduceScatter{.name = "all_pairs",
                                          .collective = Collective::kReduceScatter,
                                          .promises = {Reduces::kInRankOrder, ByReference::kAlways, BlockSizes::kEqual},
                                          .tiles = Tiles::kInCache,
                                          .max_lanes = kMaxLanes,
                                          .steps = reduce_scatter_steps,
                                          .extent = reduce_scatter_extent,
                                          .step = reduce_scatter_step};
inline constexpr Algorithm kAllGather{.name = "all_pairs",
                                      .collective = Collective::kAllGather,
                                      .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kAny},
                                      .max_lanes = kMaxLanes,
                                      .steps = all_gather_steps,
                                      .extent = all_gather_extent,
                                      .step = all_gather_step};
inline constexpr Algorithm kBroadcast{.name = "all_pairs",
                                      .collective = Collective::kBroadcast,
                                      .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kEqual},
                                      .max_lanes = kMaxLanes,
                                      .steps = broadcast_steps,
                                      .extent = whole_extent,
                                      .step = broadcast_step};
inline constexpr Algorithm kReduce{.name = "all_pairs",
                                   .collective = Collective::kReduce,
                                   .promises = {Reduces::kInRankOrder, ByReference::kAlways, BlockSizes::kEqual},
                                   .max_lanes = kMaxLanes,
                                   .steps = reduce_steps,
                                   .extent = whole_extent,
                                   .step = reduce_step};
inline constexpr Algorithm kGather{.name = "all_pairs",
                                   .collective = Collective::kGather,
                                   .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kEqual},
                                   .max_lanes = kMaxLanes,
                                   .steps = gather_steps,
                                   .extent = all_gather_extent,
                                   .step = gather_step};
inline constexpr Algorithm kScatter{.name = "all_pairs",
                                    .collective = Collective::kScatter,
                                    .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kEqual},
                                    .max_lanes = kMaxLanes,
                                    .steps = scatter_steps,
                                    .extent = reduce_scatter_extent,
                                    .step = scatter_step};
inline constexpr Algorithm kAllToAll{.name = "all_pairs",
                                     .collective = Collective::kAllToAll,
                                     .promises = {Reduces::kNothing, ByReference::kOutOfPlace, BlockSizes::kAny},
                                     .tiles = Tiles::kInCache,
                                     .max_lanes = kMaxLanes,
                                     .steps = all_to_all_steps,
                                     .extent = all_to_all_extent,
                                     .step = all_to_all_step};
inline constexpr Algorithm kBarrier{.name = "all_pairs",
                                    .collective = Collective::kBarrier,
                                    .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kEqual},
                                    .max_lanes = 1,
                                    .steps = barrier_steps,
                                    .extent = barrier_extent,
                                    .step = barrier_step};

}  // namespace tutti::all_pairs
