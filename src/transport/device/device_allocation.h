// Device memory that the library allocated. It is released when nobody holds it any more.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "device/device_driver.h"

namespace tutti {

struct DeviceAllocation {
  DeviceDriver& driver;
  const int device;
  void* memory;  ///< nullptr once it is released
  const std::size_t bytes;
  std::atomic<bool> freed{false};  ///< the caller has given it back; needs no order

  DeviceAllocation(DeviceDriver& its_driver, int its_device, void* its_memory, Bytes its_bytes)
      : driver(its_driver), device(its_device), memory(its_memory), bytes(its_bytes.value) {}
  ~DeviceAllocation() { (void)release(); }
  DeviceAllocation(const DeviceAllocation&) = delete;
  DeviceAllocation& operator=(const DeviceAllocation&) = delete;

  /// Only the last holder may call this; without the call the destructor releases. May wait for running kernels.
  Status release() {
    void* const mine = std::exchange(memory, nullptr);
    return mine == nullptr ? Status{} : driver.release(device, mine);
  }
};

/// The allocations that tuttiMemAllocDevice made; one per process. Thread-safe.
class DeviceAllocations {
 public:
  static DeviceAllocations& get();

  /// Blocks. Fails with kUnsupported if there is no device, with kInvalidArgument if there is none of this number.
  Status allocate(Bytes bytes, int device, void** memory);
  /// Fails with kInvalidArgument if no allocation begins here. Memory that peers still read is released later, and so
  /// is all memory if this is no quiet moment.
  Status free(void* memory);
  /// Returns the allocation that this is a part of, or nullptr.
  std::shared_ptr<DeviceAllocation> find(const void* memory) const;
  bool holds(const void* memory) const { return find(memory) != nullptr; }
  /// Releases what was freed and is not held by anybody any more, if this is a quiet moment. May wait for running
  /// kernels.
  void sweep();

 private:
  mutable Mutex mutex_;
  /// The allocations that have not been freed, by the address where they begin.
  std::map<std::uintptr_t, std::shared_ptr<DeviceAllocation>> known_ TUTTI_GUARDED_BY(mutex_);
  /// Freed allocations that are not released yet.
  std::vector<std::shared_ptr<DeviceAllocation>> freed_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti
