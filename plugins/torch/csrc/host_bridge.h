// How tensors on a GPU travel through pinned host memory: sends and receives, and all calls where the library has no
// streams of devices.
//
// The thread that carries an operation out copies in and out on a stream of torch's pool, which waits for the stream
// that was current at the call. The thread waits for the copy out: a work that is over has its results on the GPU.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "device_streams.h"

namespace tutti_torch {

/// The point to which the current streams of some devices have work at construction, for others to wait for. A device
/// that is the host has none.
class DeviceOrder {
 public:
  explicit DeviceOrder(const std::vector<c10::Device>& devices);
  /// Makes the devices' side streams wait for that point.
  void enter() const;
  /// Waits for it on the host.
  void wait() const;

 private:
  std::shared_ptr<std::vector<std::pair<c10::Device, c10::Event>>> points_;
};

/// While it lives, the side stream of `device` is current, unless that is the host.
class SideStreamScope {
 public:
  explicit SideStreamScope(const c10::Device& device);
  /// Waits, on the host, for the side stream.
  void drain() const;

 private:
  std::optional<c10::Stream> stream_;
  c10::OptionalStreamGuard guard_;
};

}  // namespace tutti_torch
