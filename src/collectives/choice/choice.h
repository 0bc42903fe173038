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

/// Chooses algorithm, lanes and tile of a call (docs/design/choice.md). Never blocks, never allocates; any thread.
///
/// `bytes_per_block`: the call's count in bytes, of one block. Of kAllGatherV, whose counts all ranks know, it is the
/// largest block; of kAllToAllV, where a rank knows only its own counts, it is ignored. Both get an algorithm of the
/// plain form that is_ragged_capable(), on one lane with one part.
///
/// `forced_name`: TUTTI_ALGO. The choice is the library's if it is empty or "auto", or, with name_refused, a name that
/// the collective does not have or that the deterministic mode excludes.
///
/// `forced_tile`: TUTTI_TILE_BYTES, 0 for automatic. It is rounded up to kPartAlign and cut to what messages hold.
///
/// `hosts`: the map of Machine::hosts, with which the schedules are built; nullptr if no ranks are known to share a
/// host, or all do.
Choice choose(Collective collective, Bytes bytes_per_block, const Machine& machine, std::string_view forced_name,
              Bytes forced_tile, const HostMap* hosts = nullptr);

/// Chooses lanes and tile for a known algorithm, which must serve the call.
Choice choose(Collective collective, Bytes bytes_per_block, const Machine& machine, const Algorithm& algorithm,
              Bytes forced_tile, const HostMap* hosts = nullptr);

/// Whether so many ranks share each core that they wait for one another's turns, each of which takes longer than a
/// small message. What counts then is how often each rank has to run.
bool is_crowd(const Machine& machine);

/// The automatic choice by thresholds: where the costs of the links are not known (automatic_choice.h).
std::string_view automatic_algorithm(Collective collective, Bytes bytes_per_block, const Machine& machine,
                                     const HostMap* hosts = nullptr);

}  // namespace tutti
