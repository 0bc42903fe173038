// Recursive halving and doubling all-reduce (Rabenseifner 2004; Thakur, Rabenseifner, Gropp 2005). A reduce-scatter in
// log2 n rounds, in which partners at distance 1, 2, 4, ... exchange halves of the range that they still work on,
// n/2 chunks, n/4, ..., 1, each in one message; then an all-gather through the same rounds backwards. 2 log2 n messages
// and 2S(n-1)/n bytes a rank: the bytes of a ring at the depth of recursive doubling. Other n than powers of two as in
// recursive_doubling.h: guests hand their input to their hosts, S in two messages, and get the result back alike.
//
// Places hold ascending ranges of ranks, and so do those that meet in each round: the lower place is the left operand.
// After the reduce-scatter a place has the chunk whose number is its own with the bits reversed.
//
// `tutti-plan all_reduce --ranks 4 --algo halving_doubling --grid` (drawing.h says how to read it):
//
//   rank 0   2x2 >1   <1 +0x2=   1 >2   <2 +0=   0 >2   <2 1=   0x2 >1   <1 2x2=
//   rank 1   0x2 >0   <0 +2x2=   3 >3   <3 +2=   2 >3   <3 3=   2x2 >0   <0 0x2=
//   rank 2   2x2 >3   <3 +0x2=   0 >0   <0 +1=   1 >0   <0 0=   0x2 >3   <3 2x2=
//   rank 3   0x2 >2   <2 +2x2=   2 >1   <1 +3=   3 >1   <1 2=   2x2 >2   <2 0x2=
#pragma once

#include "collectives/recursive_doubling.h"
#include "schedule/generator.h"
#include "schedule/step_builder.h"

namespace tutti::halving_doubling {

/// Chunks of a lane: as many as places.
TUTTI_HD constexpr std::int32_t chunks_of(const Shape& s) { return 1 << recursive_doubling::rounds_of(s); }

TUTTI_HD constexpr Extent all_reduce_extent(const Shape& s) {
  const auto chunks = static_cast<std::uint32_t>(chunks_of(s));
  return Extent{static_cast<std::uint32_t>(s.lanes) * chunks, 1, 1, 0, chunks > 1 ? chunks / 2 : 1};
}

/// Messages of a guest's whole input or result.
inline constexpr std::uint32_t kGuestMessages = 2;

TUTTI_HD constexpr std::uint32_t all_reduce_steps(const Shape& s) {
  if (s.ranks == 1) return 1;
  if (recursive_doubling::is_guest(s)) return 2 * kGuestMessages;
  const auto rounds = static_cast<std::uint32_t>(recursive_doubling::rounds_of(s));
  return 4 * rounds + (recursive_doubling::is_host(s) ? 2 * kGuestMessages : 0);
}

/// Where the range that a place works on before a round begins; it has chunks_of >> round chunks.
TUTTI_HD constexpr std::int32_t range_begin(const Shape& s, std::int32_t place, std::int32_t round) {
  std::int32_t begin = 0;
  for (std::int32_t k = 0; k < round; ++k) {
    if ((place >> k & 1) != 0) begin += chunks_of(s) >> (k + 1);
  }
  return begin;
}

TUTTI_HD constexpr StepBuilder half_of_all(const Shape& s, std::uint32_t lane, std::uint32_t half) {
  const std::int32_t chunks = chunks_of(s) / 2;
  const std::uint32_t first = lane * static_cast<std::uint32_t>(2 * chunks) + half * static_cast<std::uint32_t>(chunks);
  return StepBuilder(lane, first).span(chunks);
}
TUTTI_HD constexpr Step guest_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  StepBuilder step = half_of_all(s, lane, i % kGuestMessages);
  const std::uint32_t chunk = step.step().chunk;
  if (i < kGuestMessages) return step.take(BufferId::kInput, chunk).send(s.rank + 1).step();
  return step.recv(s.rank + 1).store(BufferId::kOutput, chunk).step();
}

/// A round has two steps: half of the range to the partner, the other half from there; on the way back the own half
/// to the partner, and the other one from there.
TUTTI_HD constexpr Step round_step(const Shape& s, std::uint32_t lane, std::int32_t round, bool back, bool sends) {
  const std::int32_t place = recursive_doubling::place_of(s);
  const std::int32_t partner = recursive_doubling::partner(s, round);
  const std::int32_t half = chunks_of(s) >> (round + 1);
  const bool lower = (place >> round & 1) == 0;
  const std::int32_t kept = range_begin(s, place, round + 1);
  const std::int32_t given = lower ? kept + half : kept - half;
  const std::uint32_t base = lane * static_cast<std::uint32_t>(chunks_of(s));
  const std::uint32_t chunk = base + static_cast<std::uint32_t>(sends != back ? given : kept);
  StepBuilder step(lane, chunk);
  step.span(half);
  const bool fresh = !back && round == 0 && !recursive_doubling::is_host(s);
  const BufferId partial = fresh ? BufferId::kInput : BufferId::kOutput;
  if (sends) return step.take(partial, chunk).send(partner).step();
  step.recv(partner).store(BufferId::kOutput, chunk);
  if (!back) step.reduce(partial, chunk, lower);
  if (!back && half == 1) step.complete();
  return step.step();
}

TUTTI_HD constexpr Step all_reduce_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  if (recursive_doubling::is_guest(s)) return guest_step(s, lane, i);
  const auto rounds = static_cast<std::uint32_t>(recursive_doubling::rounds_of(s));
  const std::uint32_t before = recursive_doubling::is_host(s) ? kGuestMessages : 0;
  if (i < before) {
    StepBuilder step = half_of_all(s, lane, i);
    const std::uint32_t chunk = step.step().chunk;
    return step.recv(s.rank - 1).reduce(BufferId::kInput, chunk).store(BufferId::kOutput, chunk).step();
  }
  const std::uint32_t at = i - before;
  if (at >= 4 * rounds) {
    StepBuilder step = half_of_all(s, lane, at - 4 * rounds);
    return step.take(BufferId::kOutput, step.step().chunk).send(s.rank - 1).step();
  }
  const bool back = at >= 2 * rounds;
  const auto round = static_cast<std::int32_t>(back ? 2 * rounds - 1 - at / 2 : at / 2);
  return round_step(s, lane, round, back, at % 2 == 0);
}

inline constexpr Algorithm kAllReduce{.name = "halving_doubling",
                                      .collective = Collective::kAllReduce,
                                      .promises = {Reduces::kInOwnOrder, ByReference::kAlways, BlockSizes::kEqual},
                                      .max_lanes = 32,
                                      .steps = all_reduce_steps,
                                      .extent = all_reduce_extent,
                                      .step = all_reduce_step};

}  // namespace tutti::halving_doubling
