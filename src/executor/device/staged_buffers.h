// What a staged call needs besides its launch.
#pragma once

#include <cstddef>
#include <functional>

#include "executor/device/two_level_stage.h"

namespace tutti {

/// The launch's input is nullptr if nothing is read, its output if nothing is written.
struct StagedBuffers {
  std::size_t input_blocks = 1;  ///< how many blocks of launch.count elements there are; not used for ragged blocks
  std::size_t output_blocks = 1;
  /// If not empty, it is called with elements that were read, before they are used.
  std::function<void(std::byte* data, std::size_t elements)> prepare;
  /// With it, the ranks of a host do their part by kernels; if it is nullptr, the host's executor does all of the call.
  TwoLevelStage* stage = nullptr;
  TwoLevelCall levels;
};

}  // namespace tutti
