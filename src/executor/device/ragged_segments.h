// The segments of a staged collective whose blocks differ in size. A segment has the same tiles of every block; in the
// staging memory, its parts of the blocks lie one right after another.
#pragma once

#include <vector>

#include "executor/device/tiled_segments.h"

namespace tutti {

class RaggedSegments final : public TiledSegments {
 public:
  explicit RaggedSegments(const CopyStream& copies) : TiledSegments(copies) {}

  void begin(const Launch& whole);
  Status load(std::size_t segment, std::byte* in) override;
  void run(std::size_t segment, std::byte* in, std::byte* out, Executor& host) override;
  Status store(std::size_t segment, const std::byte* out) override;

 private:
  RaggedTiling tiling_;  // that of the segment that runs
  std::vector<std::size_t> in_offsets_, out_offsets_;
};

}  // namespace tutti
