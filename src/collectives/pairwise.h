// Pairwise exchange: an all-to-all in n rounds; in round k ranks r and (k - r) mod n send each other their blocks, and
// a rank that meets itself has nothing to do (once, in round 2r mod n); its own block it copies aside. As many messages
// and bytes as all pairs with all its sends first, but a rank deals with one peer at a time: for many ranks that keeps
// few messages under way and spreads them over the links. For the pairing of n ranks by sums modulo n see the
// round-robin tournament
// ("circle method"); pairwise exchange with rank xor k for powers of two is in Thakur, Rabenseifner, Gropp (2005).
//
// Each block is sent before the one that takes its place is stored, so input and output may be one. Both ranks of a
// pair send before they receive, so one message of credit is enough.
//
// Reduce-scatter and all-gather in n-1 rounds: in round k a rank sends to the rank k above and receives from the rank k
// below, the block that this rank adds up, or its own block (Thakur, Rabenseifner, Gropp 2005, for long messages). As
// many messages and bytes as a ring, (n-1)S, but nothing is passed on: no message waits for another rank's work, and
// all of them go straight from the input.
//
// `tutti-plan all_to_all --ranks 4 --algo pairwise --grid` (drawing.h says how to read it):
//
//   rank 0   1 >1    <1 4=    2 >2    <2 8=    3 >3    <3 12=   0=
//   rank 1   7 >3    <3 13=   4 >0    <0 1=    6 >2    <2 9=    5=
//   rank 2   11 >3   <3 14=   8 >0    <0 2=    9 >1    <1 6=    10=
//   rank 3   13 >1   <1 7=    14 >2   <2 11=   12 >0   <0 3=    15=
#pragma once

#include "collectives/all_pairs.h"
#include "collectives/rank_circle.h"
#include "schedule/generator.h"

namespace tutti::pairwise {

/// A round is a send and a receive; the one in which the rank meets itself is left out.
TUTTI_HD constexpr Step all_to_all_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const std::int32_t alone = wrap(2 * s.rank, s.ranks);
  const auto at = static_cast<std::int32_t>(i);
  if (at == 2 * s.ranks - 2) return all_pairs::own_block(s, lane).aside().step();
  const std::int32_t half = at >= 2 * alone ? at + 2 : at;
  return all_pairs::exchange_step(s, lane, wrap(half / 2 - s.rank, s.ranks), half % 2 == 0);
}

TUTTI_HD constexpr std::uint32_t reduce_scatter_steps(const Shape& s) {
  return s.ranks == 1 ? 1 : 2 * (all_pairs::ranks_of(s) - 1);
}
/// Before round k the partial result holds the ranks from k-1 below this one up, and what arrives the next lower one,
/// unless that is past rank 0.
TUTTI_HD constexpr Step reduce_scatter_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const std::int32_t round = static_cast<std::int32_t>(i) / 2 + 1;
  const std::uint32_t lanes = all_pairs::lanes_of(s);
  if (i % 2 == 0) {
    const std::int32_t to = wrap(s.rank + round, s.ranks);
    const std::uint32_t chunk = static_cast<std::uint32_t>(to) * lanes + lane;
    return StepBuilder(lane, chunk).take(BufferId::kInput, chunk).send(to).step();
  }
  const std::uint32_t own = static_cast<std::uint32_t>(s.rank) * lanes + lane;
  StepBuilder step(lane, own);
  step.recv(wrap(s.rank - round, s.ranks));
  step.reduce(round == 1 ? BufferId::kInput : BufferId::kOutput, round == 1 ? own : lane, s.rank < round);
  if (round == s.ranks - 1) step.complete();
  return step.store(BufferId::kOutput, lane).step();
}

TUTTI_HD constexpr std::uint32_t all_gather_steps(const Shape& s) { return 2 * all_pairs::ranks_of(s) - 1; }
/// The own block is stored before the rounds.
TUTTI_HD constexpr Step all_gather_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  const std::int32_t round = static_cast<std::int32_t>(i + 1) / 2;
  const bool sends = i % 2 == 1;
  const std::int32_t from = sends ? s.rank : wrap(s.rank - round, s.ranks);
  const std::uint32_t chunk = static_cast<std::uint32_t>(from) * all_pairs::lanes_of(s) + lane;
  StepBuilder step(lane, chunk);
  if (sends) return step.take(BufferId::kInput, lane).send(wrap(s.rank + round, s.ranks)).step();
  i == 0 ? step.take(BufferId::kInput, lane) : step.recv(from);
  return step.store(BufferId::kOutput, chunk).step();
}

inline constexpr Algorithm kReduceScatter{.name = "pairwise",
                                          .collective = Collective::kReduceScatter,
                                          .promises = {Reduces::kInOwnOrder, ByReference::kAlways, BlockSizes::kEqual},
                                          .max_lanes = 32,
                                          .steps = reduce_scatter_steps,
                                          .extent = all_pairs::reduce_scatter_extent,
                                          .step = reduce_scatter_step};
inline constexpr Algorithm kAllGather{.name = "pairwise",
                                      .collective = Collective::kAllGather,
                                      .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kAny},
                                      .max_lanes = 32,
                                      .steps = all_gather_steps,
                                      .extent = all_pairs::all_gather_extent,
                                      .step = all_gather_step};
inline constexpr Algorithm kAllToAll{.name = "pairwise",
                                     .collective = Collective::kAllToAll,
                                     .promises = {Reduces::kNothing, ByReference::kOutOfPlace, BlockSizes::kAny},
                                     .max_lanes = 32,
                                     .steps = all_pairs::all_to_all_steps,
                                     .extent = all_pairs::all_to_all_extent,
                                     .step = all_to_all_step};

}  // namespace tutti::pairwise
