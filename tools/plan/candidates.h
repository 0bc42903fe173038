// The algorithms that could serve a call, and how long each would take.
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
  Time compared = 0;           ///< the time that the library compares: `loop`, or that of one call if there is a root
  std::uint64_t messages = 0;  ///< how many the busiest rank sends for one tile
};

/// All algorithms of the collective that the library would run for this call if it were told to, the fastest first.
/// Hierarchical ones are left out if there is no hierarchy.
std::vector<Candidate> candidates_of(Collective collective, Bytes bytes, int root, const model::World& world, int lanes,
                                     Bytes tile);

/// One algorithm, with the wanted lanes and tile; if they are 0, with those that the library would take.
Candidate candidate_of(const Choice& choice, Bytes bytes, int root, const model::World& world, int lanes, Bytes tile);

/// What is left of a predicted time if something costs nothing.
struct Parts {
  Time without_bytes = 0;      ///< what is left is for messages and steps, however small
  Time without_handovers = 0;  ///< as if every rank had a core of its own
};
Parts parts_of(const Candidate& candidate, const model::World& world);

}  // namespace tutti::plan
