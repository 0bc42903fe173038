// What a step must be by itself, before anything runs: the prover's rules for one step.
#pragma once

#include <cstdint>

#include "schedule/peer_list.h"
#include "schedule/program.h"
#include "schedule/symbolic_memory.h"

namespace tutti {

/// Where a step stands.
struct StepPlace {
  const Program& program;
  const Extent& extent;  ///< of input and output, which all ranks have alike
  std::int32_t rank = 0;
  std::uint32_t lane = 0;
  bool follows_aside = false;  ///< a step before it in its lane is aside
  PeerList peers;              ///< those of a step that receives from a set
};

/// Why the step makes no sense; nullptr: it does.
const char* find_step_fault(const StepPlace& place, const Step& step);
/// What is wrong with the chunk that a step names, for one with one chunk that has data; nullptr: nothing.
const char* find_chunk_fault(const SymbolicMemory& cells, const Step& step);

}  // namespace tutti
