// Segments that consist of whole tiles, so that the host's messages are the same as if the call were not cut.
#pragma once

#include <algorithm>
#include <cstddef>

#include "executor/device/copy_stream.h"
#include "executor/device/staged_segments.h"

namespace tutti {

/// What collectives on whole blocks and on ragged ones have in common.
class TiledSegments : public StagedSegments {
 public:
  std::size_t count() const final { return count_; }
  std::size_t segment_bytes() const final { return tile_bytes_; }

 protected:
  /// A segment's part of each block, in elements. Of a shorter block it has less, or nothing.
  struct Part {
    std::size_t first;
    std::size_t count;
    std::size_t of(std::size_t block) const { return block <= first ? 0 : std::min(count, block - first); }
  };

  explicit TiledSegments(const CopyStream& copies) : copies_(copies) {}
  static std::size_t tile_of(const Launch& launch) { return std::max<std::size_t>(launch.tile.value, 1); }
  /// Cuts the call into segments. It has `tiles` tiles, each of `tile_bytes` in the larger of the two buffers.
  void cut(const Launch& whole, std::size_t tiles, std::size_t tile_bytes);
  const Launch& whole() const { return whole_; }
  /// How many tiles a segment has; the last may have fewer.
  std::size_t tiles() const { return tiles_; }
  Part part_of(std::size_t segment) const;
  /// Makes the launch of a segment's host part, which is the whole call's, but on this staging memory. It stays in
  /// place while the segment runs.
  Launch& put_on(const std::byte* in, std::byte* out);
  Status copy_in(const RowsCopy& rows) const { return copies_.copy(rows, foreign_input_); }
  Status copy_out(const RowsCopy& rows) const { return copies_.copy(rows, foreign_output_); }

 private:
  const CopyStream& copies_;
  Launch whole_;
  Launch launch_;  // the host's part of the segment that runs
  std::size_t tile_bytes_ = 0;
  std::size_t tiles_ = 1;
  std::size_t count_ = 1;
  bool foreign_input_ = false;
  bool foreign_output_ = false;
};

}  // namespace tutti
