// The stream of a staged executor's copies between the caller's buffers and staging memory.
#pragma once

#include <cstddef>

#include "core/status.h"
#include "core/units.h"
#include "device/device_driver.h"
#include "device/stream_point.h"
#include "kernels/device/device_rows.h"

namespace tutti {

/// Plain data; whoever made the stream destroys it.
struct CopyStream {
  DeviceDriver& driver;
  int device;  ///< the stream's device
  DeviceDriver::Stream stream = nullptr;

  /// Whether the buffer is another device's memory.
  bool is_foreign(const std::byte* buffer) const;
  Status copy(void* to, const void* from, Bytes bytes) const { return driver.copy(device, to, from, bytes, stream); }
  /// `foreign` says that one side is another device's memory. Copies reach it even where this device's kernels do not.
  Status copy(const RowsCopy& rows, bool foreign) const;
  /// Sets the point to the end of what is on the stream now.
  Status mark(StreamPoint* point) const { return point->record(driver, device, stream); }
};

}  // namespace tutti
