// Where the chunks of a step's span lie, and which of them adjoin. For host and device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "schedule/binding.h"

namespace tutti {

/// A chunk of a step: where it is taken from and stored, nullptr where it is not, and how many elements it has.
struct ChunkPlace {
  std::byte* source = nullptr;
  std::byte* destination = nullptr;
  std::size_t count = 0;
};

TUTTI_HD TUTTI_APART inline std::byte* address_at(const Binding& binding, BufferId buffer, std::uint32_t chunk,
                                                  std::uint32_t distance, bool descending, std::size_t tile) {
  if (buffer == BufferId::kNone) return nullptr;
  const Extent& extent = binding.extent;
  if (distance != 0) chunk = chunk_at(chunk, distance, blocks_of(buffer, extent), extent.parts, descending);
  return binding.address(buffer, tile, chunk);
}

/// Chunk j of the step's span.
TUTTI_HD TUTTI_APART inline ChunkPlace place_of(const Binding& binding, const Step& step, std::uint32_t j,
                                                std::size_t tile) {
  const std::uint32_t distance = step.span.distance(j);
  // Where a span goes from block to block, its chunks are the same part of each, so they have one size.
  const ChunkId chunk{has_blocks(binding.extent) ? step.chunk : step.chunk + distance};
  return ChunkPlace{address_at(binding, step.src_buffer, step.src_chunk, distance, false, tile),
                    address_at(binding, step.dst_buffer, step.dst_chunk, distance, step.is(kDescending), tile),
                    binding.tiling.range(tile, chunk).count.value};
}

/// Chunks of a span that lie one after another in all that the step takes and stores.
struct ChunkRun {
  ChunkPlace first;
  Elems count;  ///< of all of them
  std::uint32_t chunks = 1;
};

TUTTI_HD inline bool follows(const Binding& binding, BufferId buffer, const std::byte* one, const std::byte* other,
                             std::size_t count) {
  if (buffer == BufferId::kNone) return true;
  return other == one + count * (buffer == BufferId::kScratch ? binding.wire_element : binding.element).value;
}

/// The longest run from chunk `j` of the span on that ends before chunk `end`.
TUTTI_HD inline ChunkRun run_from(const Binding& binding, const Step& step, std::uint32_t j, std::uint32_t end,
                                  std::size_t tile) {
  ChunkRun run{place_of(binding, step, j, tile), Elems{0}};
  ChunkPlace last = run.first;
  while (j + run.chunks < end) {
    const ChunkPlace next = place_of(binding, step, j + run.chunks, tile);
    if (next.count != last.count || !follows(binding, step.src_buffer, last.source, next.source, last.count) ||
        !follows(binding, step.dst_buffer, last.destination, next.destination, last.count))
      break;
    last = next;
    ++run.chunks;
  }
  run.count = Elems{last.count * run.chunks};
  return run;
}

}  // namespace tutti
