// A CUDA stream of the caller's, on which calls are put when they are made.
#pragma once

#include "comm/device/stream_deadlock_check.h"
#include "core/status.h"
#include "device/device_driver.h"

namespace tutti {

/// A value. The stream stays the caller's.
class CudaStream {
 public:
  /// `handle` is a cudaStream_t; nullptr means the default stream. Returns kUnsupported if the process has no device.
  static Status of(void* handle, CudaStream* stream);

  DeviceDriver::Stream handle() const { return handle_; }
  /// Whether the handle stands for the per-thread stream of whichever thread calls.
  bool is_per_thread() const { return is_per_thread_; }
  /// Gives the key of the stream as the calling thread uses it for `device`, or for any device if that is -1. Returns
  /// kInvalidArgument if it is another device's stream.
  Status place_on(int device, StreamKey* place) const;

 private:
  DeviceDriver::Stream handle_ = nullptr;
  bool is_per_thread_ = false;
  DeviceDriver::StreamTraits traits_;
};

}  // namespace tutti
