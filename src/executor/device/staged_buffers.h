// What a staged call moves, besides its launch.
#pragma once

#include <cstddef>
#include <functional>

#include "executor/device/two_level_stage.h"

namespace tutti {

/// The launch's input and output are nullptr where nothing is read or written.
struct StagedBuffers {
  std::size_t input_blocks = 1;  ///< of launch.count elements each; not for ragged blocks
  std::size_t output_blocks = 1;
  /// Done to elements that were read before they are used; empty: nothing.
  std::function<void(std::byte* data, std::size_t elements)> prepare;
  /// The ranks of a host do their part by kernels; nullptr: all of the call is the host's.
  TwoLevelStage* stage = nullptr;
  TwoLevelCall levels;
};

}  // namespace tutti
