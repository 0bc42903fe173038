// Recursive doubling all-reduce: in round k partners at distance 2^k exchange all they have. floor(log2 n) rounds of
// the whole data, so it is for small sizes and many ranks. Other n than powers of two (Thakur, Rabenseifner, Gropp
// 2005): with 2^m <= n < 2^(m+1), the first n - 2^m even ranks hand their input to the odd rank above ("guest" to
// "host"), sit out, and get the result back: one round more at each end.
//
// Places (the ranks that take part, counted without the guests) hold ascending, gapless ranges of ranks, and so do the
// halves that meet in each round: the lower place is the left operand, on both sides of the exchange.
//
// `tutti-plan all_reduce --ranks 4 --algo recursive_doubling --grid` (drawing.h says how to read it):
//
//   rank 0   0 >1   <1 +0= >2   <2 +0=
//   rank 1   0 >0   <0 +0= >3   <3 +0=
//   rank 2   0 >3   <3 +0= >0   <0 +0=
//   rank 3   0 >2   <2 +0= >1   <1 +0=
//
// The barrier exchanges empty messages in the same way. Partners wait for each other, where in a dissemination barrier
// a rank sends to one and hears from another. If ranks share cores, this was measured to be faster
// (docs/design/choice.md).
#pragma once

#include "collectives/rank_circle.h"
#include "schedule/generator.h"
#include "schedule/step_builder.h"

namespace tutti::recursive_doubling {

TUTTI_HD constexpr std::int32_t rounds_of(const Shape& s) { return floor_log2(s.ranks); }
TUTTI_HD constexpr std::int32_t guests_of(const Shape& s) { return s.ranks - (1 << rounds_of(s)); }
TUTTI_HD constexpr bool is_guest(const Shape& s) { return s.rank < 2 * guests_of(s) && s.rank % 2 == 0; }
TUTTI_HD constexpr bool is_host(const Shape& s) { return s.rank < 2 * guests_of(s) && s.rank % 2 == 1; }

/// The place of a rank that is no guest, and back.
TUTTI_HD constexpr std::int32_t place_of(const Shape& s) { return is_host(s) ? s.rank / 2 : s.rank - guests_of(s); }
TUTTI_HD constexpr std::int32_t rank_at(const Shape& s, std::int32_t place) {
  return place < guests_of(s) ? 2 * place + 1 : place + guests_of(s);
}
TUTTI_HD constexpr std::int32_t partner(const Shape& s, std::int32_t round) {
  return rank_at(s, place_of(s) ^ (1 << round));
}

TUTTI_HD constexpr std::uint32_t all_reduce_steps(const Shape& s) {
  if (s.ranks == 1) return 1;
  return is_guest(s) ? 2 : static_cast<std::uint32_t>(rounds_of(s)) + 1;
}
TUTTI_HD constexpr Extent all_reduce_extent(const Shape& s) {
  return Extent{static_cast<std::uint32_t>(s.lanes), 1, 1, 0};
}

TUTTI_HD constexpr Step guest_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  StepBuilder step(lane, lane);
  if (i == 0) return step.take(BufferId::kInput, lane).send(s.rank + 1).step();
  return step.recv(s.rank + 1).store(BufferId::kOutput, lane).step();
}

/// Step i ends round i-1 and begins round i. The output holds the partial result between the rounds.
TUTTI_HD constexpr Step all_reduce_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  if (is_guest(s)) return guest_step(s, lane, i);
  const auto round = static_cast<std::int32_t>(i);
  const bool host = is_host(s);
  StepBuilder step(lane, lane);
  if (i == 0 && !host) {
    step.take(BufferId::kInput, lane);
  } else if (i == 0) {
    step.recv(s.rank - 1).reduce(BufferId::kInput, lane).store(BufferId::kOutput, lane);
  } else {
    const BufferId partial = i == 1 && !host ? BufferId::kInput : BufferId::kOutput;
    const bool own_left = (place_of(s) & (1 << (round - 1))) == 0;
    step.recv(partner(s, round - 1)).reduce(partial, lane, own_left).store(BufferId::kOutput, lane);
  }
  if (round < rounds_of(s)) return step.send(partner(s, round)).step();
  if (host) step.send(s.rank - 1);
  return step.complete().step();
}

/// Not by reference: partners store over the partial results that they exchange.
inline constexpr Algorithm kAllReduce{.name = "recursive_doubling",
                                      .collective = Collective::kAllReduce,
                                      .promises = {Reduces::kInOwnOrder, ByReference::kNever, BlockSizes::kEqual},
                                      .max_lanes = 32,
                                      .steps = all_reduce_steps,
                                      .extent = all_reduce_extent,
                                      .step = all_reduce_step};

TUTTI_HD constexpr std::uint32_t barrier_steps(const Shape& s) { return s.ranks == 1 ? 0 : all_reduce_steps(s); }
TUTTI_HD constexpr Extent barrier_extent(const Shape&) { return Extent{1, 0, 0, 0}; }
TUTTI_HD constexpr Step barrier_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  const auto round = static_cast<std::int32_t>(i);
  StepBuilder step(lane, 0);
  if (is_guest(s)) return i == 0 ? step.send(s.rank + 1).step() : step.recv(s.rank + 1).step();
  if (i == 0 && is_host(s)) step.recv(s.rank - 1);
  if (i > 0) step.recv(partner(s, round - 1));
  if (round < rounds_of(s)) return step.send(partner(s, round)).step();
  if (is_host(s)) step.send(s.rank - 1);
  return step.step();
}

inline constexpr Algorithm kBarrier{.name = "recursive_doubling",
                                    .collective = Collective::kBarrier,
                                    .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kEqual},
                                    .max_lanes = 1,
                                    .steps = barrier_steps,
                                    .extent = barrier_extent,
                                    .step = barrier_step};

}  // namespace tutti::recursive_doubling
