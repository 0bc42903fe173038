// The stream of a staged executor's copies between the caller's buffers and staging memory.
#pragma once

#include <cstddef>

#include "core/status.h"
#include "core/units.h"
#include "device/device_driver.h"
#include "device/stream_point.h"
#include "executor/device/device_launch.h"
#include "kernels/device/device_rows.h"

namespace tutti {

/// Plain data; whoever made the stream destroys it.
struct CopyStream {
  /// How many bytes a copy for sends and receives has at most, unless a message is larger. Smaller copies need more
  /// calls of the driver. The first copy runs alone, so it should not be large. Not measured.
  static constexpr std::size_t kChunk = std::size_t{1} << 20;

  DeviceDriver& driver;
  int device;  ///< the stream's device
  DeviceDriver::Stream stream = nullptr;

  /// Whether the buffer is another device's memory.
  bool is_foreign(const std::byte* buffer) const {
    const int owner = buffer == nullptr ? -1 : driver.place_of(buffer).device;
    return owner >= 0 && owner != device;
  }
  Status copy(void* to, const void* from, Bytes bytes) const { return driver.copy(device, to, from, bytes, stream); }
  /// `foreign` says that one side is another device's memory. Copies reach it even where this device's kernels do not.
  Status copy(const RowsCopy& rows, bool foreign) const {
    if (rows.width == 0) return {};
    if (!foreign) return copy_rows(driver, device, stream, rows);
    for (std::size_t row = 0; row < rows.rows; ++row) {
      auto* const to = static_cast<std::byte*>(rows.to) + row * rows.to_pitch;
      const auto* const from = static_cast<const std::byte*>(rows.from) + row * rows.from_pitch;
      TUTTI_TRY(copy(to, from, Bytes{rows.width}));
    }
    return {};
  }
  /// Sets the point to the end of what is on the stream now.
  Status mark(StreamPoint* point) const { return point->record(driver, device, stream); }
};

}  // namespace tutti
