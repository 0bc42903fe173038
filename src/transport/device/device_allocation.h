// Device memory that the library allocated for somebody: it is released when nobody holds it.
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
  void* memory;  ///< nullptr: released
  const std::size_t bytes;
  std::atomic<bool> freed{false};  ///< the caller has given it back; alone: no order

  DeviceAllocation(DeviceDriver& its_driver, int its_device, void* its_memory, Bytes its_bytes)
      : driver(its_driver), device(its_device), memory(its_memory), bytes(its_bytes.value) {}
  ~DeviceAllocation() { (void)release(); }
  DeviceAllocation(const DeviceAllocation&) = delete;
  DeviceAllocation& operator=(const DeviceAllocation&) = delete;

  /// By who holds it alone, or nobody. May wait for running kernels.
  Status release() {
    void* const mine = std::exchange(memory, nullptr);
    return mine == nullptr ? Status{} : driver.release(device, mine);
  }
};

/// What tuttiMemAllocDevice gave, one per process. Thread-safe.
class DeviceAllocations {
 public:
  static DeviceAllocations& get();

  /// Blocks; kUnsupported: there is no device; kInvalidArgument: not this one.
  Status allocate(Bytes bytes, int device, void** memory);
  /// kInvalidArgument: no allocation begins here. What peers still read is released when they do not any more.
  Status free(void* memory);
  /// The allocation that holds this; nullptr: none does.
  std::shared_ptr<DeviceAllocation> find(const void* memory) const;
  bool holds(const void* memory) const { return find(memory) != nullptr; }
  /// Releases what was freed and is not held by anybody any more. May wait for running kernels.
  void sweep();

 private:
  mutable Mutex mutex_;
  /// The allocations by the address where they begin.
  std::map<std::uintptr_t, std::shared_ptr<DeviceAllocation>> known_ TUTTI_GUARDED_BY(mutex_);
  /// While others hold them.
  std::vector<std::shared_ptr<DeviceAllocation>> freed_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti
