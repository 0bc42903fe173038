// A generator: the pure function that says what step i of rank r of n is. One a (collective, algorithm).
#pragma once

#include <cstdint>

#include "core/types.h"
#include "schedule/host_map.h"
#include "schedule/step.h"

namespace tutti {

/// What a schedule depends on, and all it depends on: no message size, no address, no "in place".
struct Shape {
  std::int32_t ranks = 1;
  std::int32_t rank = 0;
  std::int32_t root = 0;           ///< 0 for collectives without a root
  std::int32_t lanes = 1;          ///< 1 to max_lanes of the algorithm
  const HostMap* hosts = nullptr;  ///< which ranks share a host; nullptr: not known, or all do
};

/// How a collective's buffers divide into chunks. A buffer has `blocks` blocks of the call's count; the tile's range of
/// each block is split into `parts`; chunk = block * parts + part. Scratch has `scratch_chunks` chunks of the size of
/// a part.
struct Extent {
  std::uint32_t parts = 1;
  std::uint32_t input_blocks = 1;
  std::uint32_t output_blocks = 1;
  std::uint32_t scratch_chunks = 0;  ///< chunks of part size needed besides input and output
  std::uint32_t message_chunks = 1;  ///< at least those of the longest span that travels; equal on all ranks and roots
};

/// One entry of the catalogue. The functions are constexpr generators, allocate nothing and compile for host and
/// device; `step` is defined for lane < shape.lanes and i < steps(shape).
struct Algorithm {
  const char* name;  ///< as in TUTTI_ALGO: "ring"
  Collective collective;
  std::int32_t max_lanes;
  std::uint32_t (*steps)(const Shape&);  ///< per lane, equal on all lanes of a rank; ranks may differ
  Extent (*extent)(const Shape&);
  Step (*step)(const Shape&, std::uint32_t lane, std::uint32_t i);
};

}  // namespace tutti
