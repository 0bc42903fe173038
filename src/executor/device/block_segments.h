// The segments of a staged collective whose blocks all have one size. In the staging memory, a segment's parts of the
// blocks lie one right after another.
#pragma once

#include <cstddef>
#include <functional>

#include "executor/device/tiled_segments.h"
#include "executor/device/two_level_stage.h"

namespace tutti {

/// What a staged call needs besides its launch, whose input is nullptr if nothing is read, its output if nothing is
/// written.
struct StagedBuffers {
  std::size_t input_blocks = 1;  ///< how many blocks of launch.count elements there are; not used for ragged blocks
  std::size_t output_blocks = 1;
  /// If not empty, it is called with elements that were read, before they are used.
  std::function<void(std::byte* data, std::size_t elements)> prepare;
  /// With it, the ranks of a host do their part by kernels; if it is nullptr, the host's executor does all of the call.
  TwoLevelStage* stage = nullptr;
  TwoLevelCall levels;
};

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
