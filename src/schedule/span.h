// Spans: the chunks of a step that moves several of them in one message. constexpr, host and device.
#pragma once

#include "schedule/generator.h"

namespace tutti {

/// The chunk at a distance from `chunk` in a buffer of `blocks` blocks: as many blocks on, around the end; where there
/// is one block, as many parts on.
TUTTI_HD constexpr std::uint32_t chunk_at(std::uint32_t chunk, std::uint32_t distance, std::uint32_t blocks,
                                          std::uint32_t parts, bool descending = false) {
  if (blocks <= 1) return chunk + distance;
  const std::uint32_t turned = distance % blocks;
  const std::uint32_t block = (chunk / parts + (descending ? blocks - turned : turned)) % blocks;
  return block * parts + chunk % parts;
}

/// Blocks that distances in a buffer go around; 1: none.
TUTTI_HD constexpr std::uint32_t blocks_of(BufferId buffer, const Extent& extent) {
  if (buffer == BufferId::kInput) return extent.input_blocks;
  return buffer == BufferId::kOutput ? extent.output_blocks : 1;
}

/// Whether distances count blocks of the result, and not parts of its one block.
TUTTI_HD constexpr bool has_blocks(const Extent& extent) { return extent.input_blocks > 1 || extent.output_blocks > 1; }

/// The chunk of the result that chunk j of the span is. In an all-to-all, whose result has a block a pair, the label
/// says only how large the chunks are, so all of a span have that of the first.
TUTTI_HD constexpr std::uint32_t chunk_of(const Step& step, std::uint32_t j, const Extent& extent) {
  if (extent.input_blocks > 1 && extent.output_blocks > 1) return step.chunk;
  const std::uint32_t blocks = extent.input_blocks > 1 ? extent.input_blocks : extent.output_blocks;
  return chunk_at(step.chunk, step.span.distance(j), blocks, extent.parts);
}

/// The step for chunk j of the span alone.
TUTTI_HD constexpr Step single_step(const Step& step, std::uint32_t j, const Extent& extent) {
  const std::uint32_t distance = step.span.distance(j);
  Step one = step;
  one.span = Span{};
  one.chunk = chunk_of(step, j, extent);
  one.src_chunk = chunk_at(step.src_chunk, distance, blocks_of(step.src_buffer, extent), extent.parts);
  one.dst_chunk =
      chunk_at(step.dst_chunk, distance, blocks_of(step.dst_buffer, extent), extent.parts, step.is(kDescending));
  return one;
}

}  // namespace tutti
