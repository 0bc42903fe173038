// Memory of devices that is allocated without an address and then mapped, and multicast objects: one store to such an
// object's address lands in the memory of several devices. CUDA's are in device/cuda_mappings.cc; this is an interface
// because tests without a GPU bring others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/status.h"
#include "core/units.h"

namespace tutti {

/// All functions are thread-safe, leave the thread's current device as it was, and may wait for running kernels.
class DeviceMappings {
 public:
  /// Stands for memory or for a multicast object.
  using Handle = std::uint64_t;

  virtual ~DeviceMappings() = default;

  /// Whether the device can be one of several whose memory one store lands in (NVLink multicast).
  virtual bool can_multicast(int device) = 0;
  /// Sizes of memory of these devices, and with `multicast` also of a multicast object of them, are multiples of
  /// `unit`.
  virtual Status granularity(std::span<const int> devices, bool multicast, Bytes* unit) = 0;

  /// Allocates memory of the device, which is not zeroed.
  virtual Status create(int device, Bytes bytes, Handle* memory) = 0;
  /// Makes a multicast object of these devices, which are all different.
  virtual Status create_multicast(std::span<const int> devices, Bytes bytes, Handle* object) = 0;
  /// Memory or an object that is mapped is freed when it is unmapped.
  virtual Status release(Handle handle) = 0;

  /// From now on stores to the object land in this memory, too. In all, a device binds as many bytes as the object has.
  virtual Status bind(Handle object, int device, Handle memory, Bytes bytes) = 0;
  virtual Status unbind(Handle object, int device, Bytes bytes) = 0;

  /// Gives the memory or object a new address for kernels of these devices. That of an object is for multimem stores
  /// only.
  virtual Status map(Handle handle, Bytes bytes, std::span<const int> devices, void** address) = 0;
  virtual Status unmap(void* address, Bytes bytes) = 0;
  /// Blocks until the device's memory at the address is zero.
  virtual Status zero(int device, void* address, Bytes bytes) = 0;
};

}  // namespace tutti
