// A CUDA stream of the caller's, on which calls are put when they are made.
#pragma once

#include "comm/device/stream_deadlock_check.h"
#include "core/status.h"
#include "device/device_driver.h"

namespace tutti {

/// A value; the stream stays the caller's.
class CudaStream {
 public:
  /// `handle`: a cudaStream_t; nullptr is the default stream. kUnsupported: the process has no device.
  static Status of(void* handle, CudaStream* stream);

  DeviceDriver::Stream handle() const { return handle_; }
  /// The calling thread's stream is meant, not that of who made this.
  bool is_per_thread() const { return is_per_thread_; }
  /// The stream as the calling thread uses it for `device`, -1: for any. kInvalidArgument: it is another device's.
  Status place_on(int device, StreamKey* place) const;

 private:
  DeviceDriver::Stream handle_ = nullptr;
  bool is_per_thread_ = false;
  DeviceDriver::StreamTraits traits_;
};

}  // namespace tutti
