// The binding of one call: where each step's chunks lie in its buffers and how many elements they have. The part of the
// step body that has nothing to do with moving bytes, for every executor, host and device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/fingerprint.h"
#include "core/units.h"
#include "schedule/span.h"
#include "schedule/tiling.h"

namespace tutti {

/// Plain data, one per call; the buffers are the caller's. A chunk of scratch is as it travels.
struct Binding {
  Extent extent;
  Tiling tiling{Extent{}, Elems{0}, Elems{1}, Elems{1}};
  RaggedTiling ragged;  ///< instead, where is_ragged
  bool is_ragged = false;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* scratch = nullptr;
  Bytes scratch_chunk{0};  ///< from one chunk of scratch to the next
  Bytes element{1};
  Bytes wire_element{1};  ///< bytes of an element in a message

  TUTTI_HD std::size_t tiles() const { return is_ragged ? ragged.tiles() : tiling.tiles(); }
  TUTTI_HD static Bytes scratch_chunk_of(const Tiling& tiling, Bytes wire_element) {
    return Bytes{round_up(tiling.max_chunk().value * wire_element.value, kPartAlign.value)};
  }

  /// What a step has to do in a tile.
  struct Share {
    bool exists = true;  ///< ragged blocks only: the step's block may have no such tile
    Elems count{0};
    Fingerprint fingerprint = 0;  ///< of the step's messages
  };
  TUTTI_HD Share share(const Step& step, std::size_t tile, Fingerprint call) const {
    if (!is_ragged) return Share{true, elements(step, tile), call};
    const std::size_t block = ragged.block_count(step);
    if (!ragged.has_tile(block, tile)) return Share{false, Elems{0}, call};
    return Share{true, ragged.tile_count(block, tile), fingerprint_of_block(call, block)};
  }

  /// Elements of all the step's chunks; not for ragged blocks.
  TUTTI_HD Elems elements(const Step& step, std::size_t tile) const {
    const std::uint32_t blocks = has_blocks(extent) ? step.span.count : 1;
    return Elems{tiling.range(tile, ChunkId{step.chunk}, blocks == 1 ? step.span.count : 1).count.value * blocks};
  }

  /// Whether the step's chunks follow one another where it takes them from and where it stores them: the parts of one
  /// block, or one chunk.
  TUTTI_HD bool is_one_range(const Step& step) const {
    if (step.span.count == 1) return true;
    const bool in_scratch = step.src_buffer == BufferId::kScratch || step.dst_buffer == BufferId::kScratch;
    return !in_scratch && !has_blocks(extent);
  }

  TUTTI_HD std::byte* address(BufferId buffer, std::size_t tile, std::uint32_t chunk) const {
    if (buffer == BufferId::kScratch) return scratch + scratch_chunk.value * chunk;
    const Elems begin = is_ragged ? ragged.offset(buffer, chunk, tile) : tiling.range(tile, ChunkId{chunk}).offset;
    const std::size_t offset = begin.value * element.value;
    // Input is never written: the cast lets one function serve both buffers.
    if (buffer == BufferId::kInput) return const_cast<std::byte*>(input) + offset;
    return output + offset;
  }
  TUTTI_HD std::byte* source(const Step& step, std::size_t tile) const {
    return address(step.src_buffer, tile, step.src_chunk);
  }
  TUTTI_HD std::byte* destination(const Step& step, std::size_t tile) const {
    return address(step.dst_buffer, tile, step.dst_chunk);
  }
};

}  // namespace tutti
