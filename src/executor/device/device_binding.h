// From a launch to what a kernel gets.
#pragma once

#include "executor/device/device_call.h"
#include "executor/executor.h"

namespace tutti {

/// Thread blocks that a rank may use, and the memory that they have besides the links.
struct DevicePlace {
  DeviceLinks links;
  DeviceWatch watch;
  std::byte* scratch = nullptr;  ///< of scratch_bytes_of(launch) at least
  LentBuffer lent[2];            ///< what of input and output peers in other processes can read
};

/// Elements of each block that one pass works on: small enough that all thread blocks have work, large enough that a
/// message is worth its announcement. The same on all ranks.
Elems device_tile(const Launch& launch, const DeviceGeometry& geometry);

/// Device memory that the launch needs for scratch chunks.
Bytes device_scratch(const Launch& launch, const DeviceGeometry& geometry);

/// Binds all but the table of a program too long for the parameters, whose steps are then left out: the caller sets
/// `table`. The ranks are at most kMaxDeviceRanks.
void bind_device_call(const Launch& launch, const DevicePlace& place, DeviceCall* call);

}  // namespace tutti
