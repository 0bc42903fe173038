// Recursive halving reduce-scatter for every n, on a circle: Bruck's all-gather (bruck.h) backwards (Bruck et al. 1997;
// for the reduction see Bar-Noy, Kipnis, Schieber 1993 and Traeff 2024). A rank that still works on the blocks 0 ..
// 2d-1 above its own, d a power of two, sends the upper ones, d .. 2d-1, in one message to the rank d above, and adds
// what comes from the rank d below to the lower ones. ceil(log2 n) rounds, (n-1)S bytes a rank, and a message a round,
// or two if n is no power of two. For powers of two these are the costs of recursive halving by partners (Thakur,
// Rabenseifner, Gropp 2005); other n need no rank to sit out.
//
// Before the round of distance d the partial result of the j-th block above holds the ranks r, r-2d, r-4d, ... as far
// as the block is no more than n-1 above them, and what arrives those in between. Which of the two holds the lowest
// rank depends on j in at most two pieces, and a step has one order: hence two messages.
//
// `tutti-plan reduce_scatter --ranks 4 --algo recursive_halving --grid` (drawing.h says how to read it):
//
//   rank 0   2x2 >2   <2 +0x2=   1 >1   <3 +0=
//   rank 1   3x2 >3   <3 +1x2=   2 >2   <0 +1=
//   rank 2   0x2 >0   <0 +2x2=   3 >3   <1 +2=
//   rank 3   1x2 >1   <1 +3x2=   0 >0   <2 +3=
#pragma once

#include "collectives/bruck.h"
#include "collectives/rank_circle.h"
#include "schedule/generator.h"
#include "schedule/step_builder.h"

namespace tutti::recursive_halving {

/// The lowest of the ranks r, r-by, r-2by, ..., at most `reach` below r on the circle.
TUTTI_HD constexpr std::int32_t lowest_rank(std::int32_t rank, std::int32_t by, std::int32_t reach) {
  const std::int32_t most = reach / by * by;
  return most > rank ? rank % by : rank - most;
}
TUTTI_HD constexpr bool own_is_left(std::int32_t ranks, std::int32_t rank, std::int32_t distance, std::int32_t j) {
  const std::int32_t reach = ranks - 1 - j;
  const std::int32_t below = wrap(rank - distance, ranks);
  return lowest_rank(rank, 2 * distance, reach) < lowest_rank(below, 2 * distance, reach - distance);
}

/// One round of one rank. What it sends is divided as its receiver adds it.
struct Round {
  std::int32_t distance = 0;
  std::int32_t blocks = 0;   ///< sent, and received
  std::int32_t sent = 0;     ///< blocks of the first message that is sent; the second has the rest
  std::int32_t arrived = 0;  ///< the same of those that arrive
  std::int32_t alone = 0;    ///< blocks of the first round to which nothing is added

  TUTTI_HD constexpr std::int32_t steps() const {
    return 2 + (sent < blocks ? 1 : 0) + (arrived < blocks ? 1 : 0) + (alone > 0 ? 1 : 0);
  }
};
TUTTI_HD constexpr std::int32_t first_piece(std::int32_t ranks, std::int32_t rank, std::int32_t distance,
                                            std::int32_t blocks) {
  const std::int32_t cut = (ranks - 1) % distance + 1;
  if (cut >= blocks) return blocks;
  const bool same = own_is_left(ranks, rank, distance, 0) == own_is_left(ranks, rank, distance, cut);
  return same ? blocks : cut;
}
TUTTI_HD constexpr Round round_of(const Shape& s, std::int32_t k) {
  Round round;
  round.distance = 1 << k;
  round.blocks = bruck::gathered(s.ranks, k);
  round.sent = first_piece(s.ranks, wrap(s.rank + round.distance, s.ranks), round.distance, round.blocks);
  round.arrived = first_piece(s.ranks, s.rank, round.distance, round.blocks);
  round.alone = round.distance - round.blocks;  // only in the first round there are fewer blocks than 2 * distance
  return round;
}

TUTTI_HD constexpr std::uint32_t reduce_scatter_steps(const Shape& s) {
  if (s.ranks == 1) return 1;
  std::int32_t steps = 0;
  for (std::int32_t k = 0; k < ceil_log2(s.ranks); ++k) steps += round_of(s, k).steps();
  return static_cast<std::uint32_t>(steps);
}

/// Blocks that a lane keeps in scratch, by their distance above the own one.
TUTTI_HD constexpr std::int32_t kept_blocks(const Shape& s) { return s.ranks < 3 ? 0 : 1 << (ceil_log2(s.ranks) - 1); }
TUTTI_HD constexpr Extent reduce_scatter_extent(const Shape& s) {
  const auto lanes = static_cast<std::uint32_t>(s.lanes);
  return Extent{lanes, static_cast<std::uint32_t>(s.ranks), 1, lanes * static_cast<std::uint32_t>(kept_blocks(s)),
                static_cast<std::uint32_t>(bruck::most_gathered(s.ranks))};
}

/// Where the blocks of a message lie, the first of them j above the own one.
struct Place {
  std::uint32_t chunk = 0;
  BufferId buffer = BufferId::kInput;
  std::uint32_t in_buffer = 0;
};
TUTTI_HD constexpr Place place_at(const Shape& s, std::uint32_t lane, std::int32_t j, bool fresh) {
  Place place;
  place.chunk = static_cast<std::uint32_t>(wrap(s.rank + j, s.ranks) * s.lanes) + lane;
  place.buffer = fresh ? BufferId::kInput : BufferId::kScratch;
  place.in_buffer =
      fresh ? place.chunk : lane * static_cast<std::uint32_t>(kept_blocks(s)) + static_cast<std::uint32_t>(j);
  return place;
}

TUTTI_HD constexpr Step send_step(const Shape& s, std::uint32_t lane, const Round& round, bool fresh, bool second) {
  const std::int32_t j = round.distance + (second ? round.sent : 0);
  const Place from = place_at(s, lane, j, fresh);
  return StepBuilder(lane, from.chunk)
      .take(from.buffer, from.in_buffer)
      .send(wrap(s.rank + round.distance, s.ranks))
      .span(second ? round.blocks - round.sent : round.sent)
      .step();
}
TUTTI_HD constexpr Step receive_step(const Shape& s, std::uint32_t lane, const Round& round, bool fresh, bool second) {
  const std::int32_t j = second ? round.arrived : 0;
  const Place own = place_at(s, lane, j, fresh);
  StepBuilder step(lane, own.chunk);
  step.span(second ? round.blocks - round.arrived : round.arrived);
  step.recv(wrap(s.rank - round.distance, s.ranks));
  step.reduce(own.buffer, own.in_buffer, own_is_left(s.ranks, s.rank, round.distance, j));
  if (round.distance == 1) return step.complete().store(BufferId::kOutput, lane).step();
  return step.store(BufferId::kScratch, place_at(s, lane, j, false).in_buffer).step();
}

/// A round: the first message out, the blocks that stay as they are, the first message in, then the second ones.
TUTTI_HD constexpr Step reduce_scatter_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  auto at = static_cast<std::int32_t>(i);
  std::int32_t k = ceil_log2(s.ranks) - 1;
  const bool fresh = at < round_of(s, k).steps();
  Round round = round_of(s, k);
  while (at >= round.steps()) {
    at -= round.steps();
    round = round_of(s, --k);
  }
  if (at == 0) return send_step(s, lane, round, fresh, false);
  if (round.alone > 0 && at == 1) {
    const Place from = place_at(s, lane, round.blocks, true);
    const std::uint32_t to = place_at(s, lane, round.blocks, false).in_buffer;
    StepBuilder step(lane, from.chunk);
    return step.take(BufferId::kInput, from.chunk).store(BufferId::kScratch, to).span(round.alone).step();
  }
  at -= round.alone > 0 ? 1 : 0;
  if (at == 1) return receive_step(s, lane, round, fresh, false);
  const bool sends = at == 2 && round.sent < round.blocks;
  return sends ? send_step(s, lane, round, fresh, true) : receive_step(s, lane, round, fresh, true);
}

inline constexpr Algorithm kReduceScatter{.name = "recursive_halving",
                                          .collective = Collective::kReduceScatter,
                                          .promises = {Reduces::kInOwnOrder, ByReference::kAlways, BlockSizes::kEqual},
                                          .max_lanes = 32,
                                          .steps = reduce_scatter_steps,
                                          .extent = reduce_scatter_extent,
                                          .step = reduce_scatter_step};

}  // namespace tutti::recursive_halving
