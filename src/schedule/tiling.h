// Tiling: where the chunks of a schedule lie in a call's buffers, tile by tile. For host and device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/units.h"
#include "schedule/generator.h"

namespace tutti {

/// Parts begin at multiples of this many bytes within a tile, so that no two lanes write to one cache line of an
/// aligned buffer.
inline constexpr Bytes kPartAlign{kCacheLine};

/// Those of <algorithm> are not for the device.
TUTTI_HD constexpr std::size_t smaller_of(std::size_t a, std::size_t b) { return a < b ? a : b; }
TUTTI_HD constexpr std::size_t larger_of(std::size_t a, std::size_t b) { return a < b ? b : a; }

/// The range of one chunk within its buffer, in elements.
struct ChunkRange {
  Elems offset;
  Elems count;
};

/// Splits `count` elements a block into tiles and each tile into the extent's parts. A tile is one pass of the program,
/// so the program does not depend on the message size. All arithmetic is on elements. A plain value, safe from any
/// thread.
class Tiling {
 public:
  /// `tile` (at least 1) elements of each block are worked on in one pass; parts are multiples of `align` elements,
  /// except where the tile ends. Parts at the end of a short tile may be empty.
  TUTTI_HD Tiling(const Extent& extent, Elems count, Elems tile, Elems align)
      : count_(count.value), tile_(larger_of(tile.value, 1)), parts_(extent.parts == 0 ? 1 : extent.parts) {
    // Small calls have one tile and often one part, and a division costs as much as the rest of this.
    tiles_ = count_ <= tile_ ? 1 : div_up(count_, tile_);
    const std::size_t unit = larger_of(align.value, 1);
    part_ = part_of(smaller_of(tile_, count_), unit);
    last_part_ = part_of(count_ - (tiles_ - 1) * tile_, unit);
  }

  /// Passes of the program; at least 1, so that an empty call still exchanges headers where the caller runs it.
  TUTTI_HD std::size_t tiles() const { return tiles_; }

  /// Elements of chunk `chunk` in tile `t` < tiles(); may be 0. Equal for all chunks with the same part index. With
  /// `chunks` more than 1, the elements of so many chunks of one block.
  TUTTI_HD TUTTI_APART ChunkRange range(std::size_t t, ChunkId chunk, std::uint32_t chunks = 1) const {
    const std::uint32_t block = parts_ == 1 ? chunk.value : chunk.value / parts_;
    const std::uint32_t part = chunk.value - block * parts_;
    const bool last = t + 1 == tiles_;
    const std::size_t tile_begin = t * tile_;
    const std::size_t tile_size = last ? count_ - tile_begin : tile_;
    const std::size_t part_size = last ? last_part_ : part_;
    const std::size_t begin = smaller_of(part * part_size, tile_size);
    const std::size_t end = smaller_of((std::size_t{part} + chunks) * part_size, tile_size);
    return ChunkRange{Elems{block * count_ + tile_begin + begin}, Elems{end - begin}};
  }

  /// The largest chunk of any tile: what messages and scratch chunks must hold.
  TUTTI_HD Elems max_chunk() const { return Elems{smaller_of(part_, smaller_of(tile_, count_))}; }

 private:
  TUTTI_HD std::size_t part_of(std::size_t size, std::size_t unit) const {
    return parts_ == 1 ? size : round_up(div_up(size, parts_), unit);
  }

  std::size_t count_;
  std::size_t tile_;
  std::uint32_t parts_;
  std::size_t tiles_;
  std::size_t part_;       ///< part size of a whole tile
  std::size_t last_part_;  ///< part size of the last tile
};

/// Where the blocks of one buffer lie, in elements: block b is [offsets[b], offsets[b] + counts[b]). A view of `size`
/// values each.
struct BlockTable {
  const std::size_t* counts = nullptr;
  const std::size_t* offsets = nullptr;
  std::size_t size = 0;

  TUTTI_HD std::size_t largest() const {
    std::size_t most = 0;
    for (std::size_t i = 0; i < size; ++i) most = larger_of(most, counts[i]);
    return most;
  }
};

/// Tiling of the forms whose blocks differ in size: a tile is the same range of every block. A step works on one block
/// (schedules with one part and one lane only), and has no tile t where that block has none. Both ends of a message
/// know the block's count, so both skip it; an empty block has one empty tile, which sends a header. A plain value,
/// a view of the tables, safe from any thread.
class RaggedTiling {
 public:
  RaggedTiling() = default;
  /// `tile` elements, at least 1.
  TUTTI_HD RaggedTiling(const BlockTable& input, const BlockTable& output, Elems tile)
      : input_(input), output_(output), tile_(larger_of(tile.value, 1)) {}

  /// A window of the same: `tiles` tiles from tile `first` on, which becomes tile 0. Counts stay those of the whole
  /// blocks; the tables' offsets say where the window's part of each block lies.
  RaggedTiling window(const BlockTable& input, const BlockTable& output, std::size_t first, std::size_t tiles) const {
    RaggedTiling part(input, output, Elems{tile_});
    part.first_ = first;
    part.most_ = tiles;
    return part;
  }

  /// Passes of the program on this rank; ranks may differ.
  TUTTI_HD std::size_t tiles() const {
    return smaller_of(tiles_of(larger_of(input_.largest(), output_.largest())) - first_, most_);
  }

  const BlockTable& input() const { return input_; }
  const BlockTable& output() const { return output_; }

  /// Elements of the block that the step works on.
  TUTTI_HD std::size_t block_count(const Step& step) const {
    const bool takes = step.src_buffer != BufferId::kNone;
    return takes ? table(step.src_buffer).counts[step.src_chunk] : table(step.dst_buffer).counts[step.dst_chunk];
  }
  /// Whether a block of so many elements has tile t.
  TUTTI_HD bool has_tile(std::size_t block_count, std::size_t t) const {
    return t + first_ == 0 || (t + first_) * tile_ < block_count;  // as t + first_ < tiles_of(), without a division
  }
  /// Elements of a tile that there is.
  TUTTI_HD Elems tile_count(std::size_t block_count, std::size_t t) const {
    return Elems{smaller_of(tile_, block_count - (t + first_) * tile_)};
  }
  /// Where tile t of a block begins in its buffer.
  TUTTI_HD Elems offset(BufferId buffer, std::uint32_t block, std::size_t t) const {
    return Elems{table(buffer).offsets[block] + t * tile_};
  }

 private:
  TUTTI_HD const BlockTable& table(BufferId buffer) const { return buffer == BufferId::kInput ? input_ : output_; }
  TUTTI_HD std::size_t tiles_of(std::size_t count) const { return larger_of(div_up(count, tile_), 1); }

  BlockTable input_;
  BlockTable output_;
  std::size_t tile_ = 1;
  std::size_t first_ = 0;
  std::size_t most_ = SIZE_MAX;
};

}  // namespace tutti
