// The choice of an algorithm: a pure function of the call and of what was agreed at join, so that all ranks choose
// alike.
#pragma once

#include <string_view>

#include "core/machine.h"
#include "core/types.h"
#include "schedule/generator.h"

namespace tutti {

struct Choice {
  const Algorithm* algorithm = nullptr;  ///< nullptr: no algorithm for this collective
  int lanes = 1;
  Bytes tile_bytes;  ///< of each block and pass; a multiple of kPartAlign; no chunk exceeds Machine::max_message
  bool name_refused = false;  ///< `forced_name` is not offered for this call: warn once; the choice is automatic
};

/// `bytes_per_block`: the call's count in bytes (of one block: recvcount for a reduce-scatter, sendcount for an
/// all-gather). `forced_name`: TUTTI_ALGO; empty or "auto" leaves the choice to the library, and so does, with
/// name_refused, a name that the collective does not have or that the deterministic mode excludes. `forced_tile`:
/// TUTTI_TILE_BYTES, 0 for automatic; it is rounded up to kPartAlign and cut to what messages hold. Never blocks, never
/// allocates; any thread.
Choice choose(Collective collective, Bytes bytes_per_block, const Machine& machine, std::string_view forced_name,
              Bytes forced_tile);

/// The automatic choice's name; for tests and documentation of the thresholds.
std::string_view automatic_algorithm(Collective collective, Bytes bytes_per_block, const Machine& machine);

/// Whether the algorithm reduces all operands at once in rank order, as the deterministic mode asks (or reduces
/// nothing).
bool is_deterministic(const Algorithm& algorithm);

}  // namespace tutti
