// Bruck's algorithms for many ranks and small blocks (Bruck, Ho, Kipnis, Upfal, Weathersby 1997), in ceil(log2 n)
// rounds with one message each, for every n.
//
//   all-gather   a rank that has the 2^k blocks from its own up sends them to the rank 2^k below, and gets the blocks
//                that follow from the rank 2^k above; (n-1)S bytes a rank. Blocks go straight to their places: a
//                message takes them from there around the end of the buffer, so nothing is rotated at the end.
//   all-to-all   the block for the rank i above is sent in the rounds of i's bits, 2^k ranks up in round k, together
//                with all blocks that take that way: about n/2 of them, so S n/2 log2 n bytes a rank instead of the
//                least, (n-1)S, for log2 n messages instead of n-1. Blocks under way are kept in scratch, in the order
//                of the distance i; they are copied there first, because in place what arrives for this rank would
//                overwrite what is still to be sent.
//
// `tutti-plan all_gather --ranks 5 --algo bruck --grid` (drawing.h says how to read it):
//
//   rank 0   0= >4   <1 1=   0x2 >3   <2 2x2=   0 >1   <4 4=
//   rank 1   1= >0   <2 2=   1x2 >4   <3 3x2=   1 >2   <0 0=
//   rank 2   2= >1   <3 3=   2x2 >0   <4 4x2=   2 >3   <1 1=
//   rank 3   3= >2   <4 4=   3x2 >1   <0 0x2=   3 >4   <2 2=
//   rank 4   4= >3   <0 0=   4x2 >2   <1 1x2=   4 >0   <3 3=
#pragma once

#include "collectives/all_pairs.h"
#include "collectives/rank_circle.h"
#include "schedule/generator.h"
#include "schedule/step_builder.h"

namespace tutti::bruck {

/// ---- all-gather ----

/// Blocks of the message of a round: those that the rank has, or the last ones that the other lacks.
TUTTI_HD constexpr std::int32_t gathered(std::int32_t ranks, std::int32_t round) {
  const std::int32_t have = 1 << round;
  return have < ranks - have ? have : ranks - have;
}
/// The most of any round: the last one may have fewer than the one before.
TUTTI_HD constexpr std::int32_t most_gathered(std::int32_t ranks) {
  const std::int32_t rounds = ceil_log2(ranks);
  if (rounds < 2) return 1;
  const std::int32_t before = gathered(ranks, rounds - 2);
  const std::int32_t last = gathered(ranks, rounds - 1);
  return before > last ? before : last;
}

TUTTI_HD constexpr std::uint32_t all_gather_steps(const Shape& s) {
  return s.ranks == 1 ? 1 : 2 * static_cast<std::uint32_t>(ceil_log2(s.ranks));
}
TUTTI_HD constexpr Extent all_gather_extent(const Shape& s) {
  const auto most = static_cast<std::uint32_t>(most_gathered(s.ranks));
  return Extent{static_cast<std::uint32_t>(s.lanes), 1, static_cast<std::uint32_t>(s.ranks), 0, most};
}
TUTTI_HD constexpr Step all_gather_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const auto round = static_cast<std::int32_t>(i / 2);
  const std::int32_t distance = 1 << round;
  const bool sends = i % 2 == 0;
  const std::int32_t first = sends ? s.rank : wrap(s.rank + distance, s.ranks);
  const std::uint32_t chunk = static_cast<std::uint32_t>(first * s.lanes) + lane;
  StepBuilder step(lane, chunk);
  step.span(gathered(s.ranks, round));
  if (!sends) return step.recv(first).store(BufferId::kOutput, chunk).step();
  i == 0 ? step.take(BufferId::kInput, lane).store(BufferId::kOutput, chunk) : step.take(BufferId::kOutput, chunk);
  return step.send(wrap(s.rank - distance, s.ranks)).step();
}

/// ---- all-to-all ----

/// Distances below `ranks` that have the round's bit.
TUTTI_HD constexpr std::int32_t exchanged(std::int32_t ranks, std::int32_t round) {
  const std::int32_t run = 1 << round;
  const std::int32_t rest = ranks % (2 * run) - run;
  return ranks / (2 * run) * run + (rest > 0 ? rest : 0);
}
TUTTI_HD constexpr std::int32_t most_exchanged(std::int32_t ranks) {
  std::int32_t most = 1;
  for (std::int32_t round = 0; round < ceil_log2(ranks); ++round) {
    const std::int32_t count = exchanged(ranks, round);
    most = count > most ? count : most;
  }
  return most;
}

TUTTI_HD constexpr std::uint32_t all_to_all_steps(const Shape& s) {
  return s.ranks == 1 ? 1 : 3 + 2 * static_cast<std::uint32_t>(ceil_log2(s.ranks));
}
TUTTI_HD constexpr Extent all_to_all_extent(const Shape& s) {
  const auto ranks = static_cast<std::uint32_t>(s.ranks);
  const auto lanes = static_cast<std::uint32_t>(s.lanes);
  const auto most = static_cast<std::uint32_t>(most_exchanged(s.ranks));
  return Extent{lanes, ranks, ranks, s.ranks == 1 ? 0 : lanes * ranks, most};
}
/// The own block, then all others into scratch; the rounds; what is in scratch then came from i ranks below.
TUTTI_HD constexpr Step all_to_all_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (i == 0) return all_pairs::own_block(s, lane).step();
  const std::uint32_t kept = lane * static_cast<std::uint32_t>(s.ranks);
  const auto block = [&](std::int32_t rank) {
    return static_cast<std::uint32_t>(wrap(rank, s.ranks) * s.lanes) + lane;
  };
  if (i == 1 || i == all_to_all_steps(s) - 1) {
    StepBuilder step(lane, all_pairs::pair_chunk(s, s.rank, s.rank, lane));
    step.span(s.ranks - 1);
    if (i == 1) return step.take(BufferId::kInput, block(s.rank + 1)).store(BufferId::kScratch, kept + 1).step();
    return step.take(BufferId::kScratch, kept + 1).store(BufferId::kOutput, block(s.rank - 1)).descending().step();
  }
  const auto round = static_cast<std::int32_t>(i / 2) - 1;
  const bool sends = i % 2 == 0;
  const std::int32_t distance = 1 << round;
  const std::int32_t from = sends ? s.rank : wrap(s.rank - distance, s.ranks);
  const std::int32_t to = sends ? wrap(s.rank + distance, s.ranks) : s.rank;
  const std::uint32_t first = kept + static_cast<std::uint32_t>(distance);
  StepBuilder step(lane, all_pairs::pair_chunk(s, from, to, lane));
  step.span_in_runs(exchanged(s.ranks, round), round, round + 1);
  return sends ? step.take(BufferId::kScratch, first).send(to).step()
               : step.recv(from).store(BufferId::kScratch, first).step();
}

inline constexpr Algorithm kAllGather{.name = "bruck",
                                      .collective = Collective::kAllGather,
                                      .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kEqual},
                                      .max_lanes = 32,
                                      .steps = all_gather_steps,
                                      .extent = all_gather_extent,
                                      .step = all_gather_step};
inline constexpr Algorithm kAllToAll{.name = "bruck",
                                     .collective = Collective::kAllToAll,
                                     .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kEqual},
                                     .max_lanes = 32,
                                     .steps = all_to_all_steps,
                                     .extent = all_to_all_extent,
                                     .step = all_to_all_step};

}  // namespace tutti::bruck
