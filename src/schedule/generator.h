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

  constexpr bool operator==(const Extent&) const = default;
};

/// In which order the operands of all ranks are reduced.
enum class Reduces : std::uint8_t {
  kInOwnOrder,   ///< step by step, as it suits the algorithm; others round otherwise
  kInRankOrder,  ///< all at once, in rank order, as the deterministic mode asks
  kNothing,      ///< the collective has no operation
};

/// Whether messages may be read straight from the sender's input and output until their receivers have consumed them,
/// because no rank overwrites such memory before, at any n, root and number of lanes. A step that only sends, or sends
/// and stores its own chunk, may be read from its source, and one that stores what it sends from its destination. Other
/// messages and those from scratch must be copied. Of all ranks' buffers only the sender's matter: whether it calls in
/// place.
enum class ByReference : std::uint8_t {
  kNever,
  kOutOfPlace,  ///< in place, what arrives takes the place of what was sent at the same time
  kAlways,
};

/// Which blocks the algorithm serves. It serves any if on one lane every step works on one block from its first verb to
/// its last: a step whose block has no such tile is then skipped, and both ends of a message, which know that block's
/// count, skip it alike (docs/design/schedule.md). kAny is for collectives that have a v-form.
enum class BlockSizes : std::uint8_t { kEqual, kAny };

/// What others rely on, proved by tests from the schedules. All must be given: there is no constructor without.
struct Promises {
  constexpr Promises(Reduces reduces, ByReference by_reference, BlockSizes blocks)
      : reduces(reduces), by_reference(by_reference), blocks(blocks) {}

  Reduces reduces;
  ByReference by_reference;
  BlockSizes blocks;
};

/// What fixes the size of a tile; messages limit it.
enum class Tiles : std::uint8_t {
  kLargest,    ///< nothing else
  kDownRanks,  ///< tiles follow one another down a chain of all ranks, which should be full
  kDownHosts,  ///< the same down a chain of hosts
  kDownTrees,  ///< the same down trees of hosts, or up
  kInCache,    ///< each rank of a host writes to all others in turn: what is under way should stay in a cache
};

/// Where large calls gain by a second lane. One thread drives all lanes of a rank, so lanes only cost messages, except
/// where they use links in both directions.
enum class SecondLane : std::uint8_t { kNever, kBetweenHosts, kAlways };

/// One entry of the catalogue. The functions are constexpr generators, allocate nothing and compile for host and
/// device; `step` is defined for lane < shape.lanes and i < steps(shape).
struct Algorithm {
  const char* name;  ///< as in TUTTI_ALGO: "ring"
  Collective collective;
  Promises promises;
  bool hierarchical = false;  ///< made for hosts of several ranks: its steps depend on Shape::hosts
  bool serves_alone = false;  ///< hierarchical, and where every rank has a host it is no other algorithm's program
  Tiles tiles = Tiles::kLargest;
  SecondLane second_lane = SecondLane::kNever;
  std::int32_t max_lanes;
  std::uint32_t (*steps)(const Shape&);  ///< per lane, equal on all lanes of a rank; ranks may differ
  Extent (*extent)(const Shape&);
  Step (*step)(const Shape&, std::uint32_t lane, std::uint32_t i);
};

constexpr bool is_deterministic(const Algorithm& algorithm) {
  return algorithm.promises.reduces != Reduces::kInOwnOrder;
}
constexpr bool is_reference_safe(const Algorithm& algorithm, bool in_place) {
  return algorithm.promises.by_reference >= (in_place ? ByReference::kAlways : ByReference::kOutOfPlace);
}
constexpr bool is_ragged_capable(const Algorithm& algorithm) { return algorithm.promises.blocks == BlockSizes::kAny; }

}  // namespace tutti
