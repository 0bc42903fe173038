// What could serve a call, and how long each would take.
#pragma once

#include <string>
#include <vector>

#include "model/world.h"

namespace tutti::plan {

struct Candidate {
  const Algorithm* algorithm = nullptr;
  SimulatedCall call;
  Prediction prediction;       ///< of one call that all ranks begin at once
  Time loop = 0;               ///< from call to call in a loop
  Time compared = 0;           ///< what the library compares: in a loop, but of one call where there is a root
  std::uint64_t messages = 0;  ///< that the busiest rank sends, of one tile
};

/// All algorithms of the collective that the library would run for this call if it were told to, the fastest
/// first; without hierarchical ones where there is no hierarchy.
std::vector<Candidate> candidates_of(Collective collective, Bytes bytes, int root, const model::World& world, int lanes,
                                     Bytes tile);

/// One algorithm, with lanes and tile as wanted (0: as the library would).
Candidate candidate_of(const Choice& choice, Bytes bytes, int root, const model::World& world, int lanes, Bytes tile);

/// The parts of a predicted time: what is left where something costs nothing.
struct Parts {
  Time without_bytes = 0;      ///< messages and steps, however small
  Time without_handovers = 0;  ///< if every rank had a core of its own
};
Parts parts_of(const Candidate& candidate, const model::World& world);

}  // namespace tutti::plan
