#include "transport/device/device_allocation.h"

#include <algorithm>

#include "device/quiet_moment.h"
#include "transport/device/deferred_unmaps.h"

namespace tutti {

// Never destroyed, because the driver may be gone at the process's end.
DeviceAllocations& DeviceAllocations::get() {
  static DeviceAllocations* const all = new DeviceAllocations;
  return *all;
}

Status DeviceAllocations::allocate(Bytes bytes, int device, void** memory) {
  DeviceDriver* const driver = device_driver();
  const int devices = driver == nullptr ? 0 : driver->devices();
  if (devices == 0) return fail(Code::kUnsupported, "this process has no device");
  if (device < 0 || device >= devices)
    return fail(Code::kInvalidArgument, "device {} is none of 0 to {}", device, devices - 1);
  DeferredUnmaps::get().sweep(device);  // so that peers can release what was mapped here
  sweep();
  bytes.value = std::max<std::size_t>(bytes.value, 1);
  TUTTI_TRY(driver->allocate(device, bytes, memory));
  auto made = std::make_shared<DeviceAllocation>(*driver, device, *memory, bytes);
  const MutexLock lock(mutex_);
  known_[reinterpret_cast<std::uintptr_t>(*memory)] = std::move(made);
  return {};
}

Status DeviceAllocations::free(void* memory) {
  std::shared_ptr<DeviceAllocation> last;
  {
    const MutexLock lock(mutex_);
    const auto found = known_.find(reinterpret_cast<std::uintptr_t>(memory));
    if (found == known_.end())
      return fail(Code::kInvalidArgument, "this is not the begin of memory that tuttiMemAllocDevice gave");
    last = std::move(found->second);
    known_.erase(found);
    last->freed.store(true);
  }
  DeferredUnmaps::get().sweep(last->device);
  sweep();
  if (const QuietMoment now; now.is_quiet() && last.use_count() == 1) return last->release();
  const MutexLock lock(mutex_);
  freed_.push_back(std::move(last));
  return {};
}

void DeviceAllocations::sweep() {
  const QuietMoment now;
  if (!now.is_quiet()) return;
  std::vector<std::shared_ptr<DeviceAllocation>> last;  // released outside of the lock
  const MutexLock lock(mutex_);
  std::erase_if(freed_, [&](const std::shared_ptr<DeviceAllocation>& allocation) {
    const bool alone = allocation.use_count() == 1;
    if (alone) last.push_back(allocation);
    return alone;
  });
}

std::shared_ptr<DeviceAllocation> DeviceAllocations::find(const void* memory) const {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const MutexLock lock(mutex_);
  auto found = known_.upper_bound(address);
  if (found == known_.begin()) return nullptr;
  --found;
  return address - found->first < found->second->bytes ? found->second : nullptr;
}

}  // namespace tutti
