// Memory of devices apart from the addresses that it has, and objects by whose addresses one store lands in memory of
// several devices. The real ones are device/cuda_mappings.cc; this is an interface, because tests without a GPU bring
// others.
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
  /// Memory, or a multicast object.
  using Handle = std::uint64_t;

  virtual ~DeviceMappings() = default;

  /// Whether the device can be one of several that a store lands in (NVLink multicast).
  virtual bool can_multicast(int device) = 0;
  /// What sizes are multiples of: of memory of these devices, or of a multicast object of them.
  virtual Status granularity(std::span<const int> devices, bool multicast, Bytes* unit) = 0;

  /// Memory of the device; what is in it is not known.
  virtual Status create(int device, Bytes bytes, Handle* memory) = 0;
  /// An object of all these devices, each of which is there once.
  virtual Status create_multicast(std::span<const int> devices, Bytes bytes, Handle* object) = 0;
  /// Of what is mapped: goes when that is unmapped.
  virtual Status release(Handle handle) = 0;

  /// Stores to the object land in this memory, too; of one device's as many bytes as the object has.
  virtual Status bind(Handle object, int device, Handle memory, Bytes bytes) = 0;
  virtual Status unbind(Handle object, int device, Bytes bytes) = 0;

  /// A new address of it for kernels of these devices. Of an object: for multimem stores only.
  virtual Status map(Handle handle, Bytes bytes, std::span<const int> devices, void** address) = 0;
  virtual Status unmap(void* address, Bytes bytes) = 0;
  /// Blocks until the device's memory at the address is zero.
  virtual Status zero(int device, void* address, Bytes bytes) = 0;
};

}  // namespace tutti
