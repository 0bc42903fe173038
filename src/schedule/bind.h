// Binding: where the chunks of a schedule lie in a call's buffers, tile by tile.
#pragma once

#include <algorithm>
#include <cstddef>

#include "core/units.h"
#include "schedule/generator.h"

namespace tutti {

/// The range of one chunk within its buffer, in elements.
struct ChunkRange {
  Elems offset;
  Elems count;
};

/// Splits `count` elements a block into tiles and each tile into the extent's parts. A tile is one pass of the program, so
/// the program does not depend on the message size. All arithmetic is on elements.
class Tiling {
 public:
  /// `tile` elements of each block are worked on in one pass; parts are multiples of `align` elements, except the last.
  Tiling(const Extent& extent, Elems count, Elems tile, Elems align) : count_(count), tile_(tile), parts_(extent.parts) {
    part_ = Elems{round_up(div_up(std::min(tile, count).value, parts_), std::max<std::size_t>(align.value, 1))};
    align_ = align;
  }
  /// Passes of the program; at least 1, so that an empty call still exchanges headers where the caller runs it.
  std::size_t tiles() const { return count_.value == 0 ? 1 : div_up(count_.value, tile_.value); }

  /// Elements of chunk `chunk` in tile `t`; may be 0. Equal for all chunks with the same part index.
  ChunkRange range(std::size_t t, ChunkId chunk) const {
    const std::size_t block = chunk.value / parts_;
    const std::size_t part = chunk.value % parts_;
    const std::size_t tile_begin = t * tile_.value;
    const std::size_t tile_size = std::min(tile_.value, count_.value - std::min(count_.value, tile_begin));
    const std::size_t part_size = tile_size == tile_.value ? part_.value : round_up(div_up(tile_size, parts_), std::max<std::size_t>(align_.value, 1));
    const std::size_t begin = std::min(part * part_size, tile_size);
    const std::size_t end = std::min(begin + part_size, tile_size);
    return ChunkRange{Elems{block * count_.value + tile_begin + begin}, Elems{end - begin}};
  }
  /// The largest chunk of any tile.
  Elems max_chunk() const { return part_; }

 private:
  Elems count_;
  Elems tile_;
  Elems part_;
  Elems align_;
  std::size_t parts_;
};

}  // namespace tutti
