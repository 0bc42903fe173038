// The segments of a staged collective whose blocks all have one size. In the staging memory, a segment's parts of the
// blocks lie one right after another.
#pragma once

#include "executor/device/staged_buffers.h"
#include "executor/device/tiled_segments.h"

namespace tutti {

class BlockSegments final : public TiledSegments {
 public:
  explicit BlockSegments(const CopyStream& copies) : TiledSegments(copies) {}

  /// `buffers` stay in place until the call has ended.
  void begin(const Launch& whole, const StagedBuffers& buffers);
  Status load(std::size_t segment, std::byte* in) override;
  void run(std::size_t segment, std::byte* in, std::byte* out, Executor& host) override;
  Status store(std::size_t segment, const std::byte* out) override;

 private:
  /// How many elements a segment's part of a block has.
  std::size_t elements_of(std::size_t segment) const { return part_of(segment).of(whole().count.value); }

  const StagedBuffers* buffers_ = nullptr;
};

}  // namespace tutti
