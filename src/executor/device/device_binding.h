// Makes, of a launch, the parameters that a kernel gets.
#pragma once

#include "executor/device/device_call.h"
#include "executor/executor.h"

namespace tutti {

/// What a rank's kernels use besides the call: links, scratch and lent buffers.
struct DevicePlace {
  DeviceLinks links;
  DeviceWatch watch;
  std::byte* scratch = nullptr;  ///< at least device_scratch() bytes
  LentBuffer lent[2];            ///< of input and output, the memory that peers in other processes can read
  std::uint64_t number = 0;      ///< the call's, see DeviceCall::number
};

/// How many elements of each of the buffers' blocks one pass works on: few enough that all thread blocks have work, and
/// enough that a message is worth its announcement. Equal on all ranks.
Elems device_tile(const Launch& launch, const DeviceGeometry& geometry);

/// How much device memory the launch needs for scratch chunks.
Bytes device_scratch(const Launch& launch, const DeviceGeometry& geometry);

/// Fills `call`. If the program is too long for the parameters, its steps are left out, and the caller sets `table`.
/// There are at most kMaxDeviceRanks ranks.
void bind_device_call(const Launch& launch, const DevicePlace& place, DeviceCall* call);

}  // namespace tutti
