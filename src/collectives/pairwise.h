// Pairwise exchange: an all-to-all in n rounds; in round k ranks r and (k - r) mod n send each other their blocks, and
// a rank that meets itself copies its own (each does so once, in round 2r mod n). As many messages and bytes as all
// pairs with all its sends first, but a rank deals with one peer at a time: for many ranks that keeps few messages
// under way and spreads them over the links. For the pairing of n ranks by sums modulo n see the round-robin tournament
// ("circle method"); pairwise exchange with rank xor k for powers of two is in Thakur, Rabenseifner, Gropp (2005).
//
// Each block is sent before the one that takes its place is stored, so input and output may be one. Both ranks of a
// pair send before they receive, so one message of credit is enough.
#pragma once

#include "collectives/all_pairs.h"
#include "collectives/rank_circle.h"
#include "schedule/generator.h"

namespace tutti::pairwise {

/// A round is a send and a receive; the round in which the rank meets itself is one step.
TUTTI_HD constexpr Step all_to_all_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  const std::int32_t alone = wrap(2 * s.rank, s.ranks);
  const auto at = static_cast<std::int32_t>(i);
  const std::int32_t half = at > 2 * alone ? at + 1 : at;
  return all_pairs::exchange_step(s, lane, wrap(half / 2 - s.rank, s.ranks), half % 2 == 0);
}

inline constexpr Algorithm kAllToAll{
    "pairwise", Collective::kAllToAll, 32, all_pairs::all_to_all_steps, all_pairs::all_to_all_extent, all_to_all_step};

}  // namespace tutti::pairwise
