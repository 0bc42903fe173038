#include "transport/device_closings.h"

#include <algorithm>
#include <utility>

namespace tutti {

// Never destroyed: what is still mapped at the process's end ends with it.
DeviceClosings& DeviceClosings::get() {
  static DeviceClosings* const all = new DeviceClosings;
  return *all;
}

void DeviceClosings::add(Item item) {
  const std::lock_guard lock(mutex_);
  items_.push_back(std::move(item));
}

// Under the lock, so that nobody takes for closed what another thread is about to close. What cannot be closed, because
// its owner has released it, is not there any more.
void DeviceClosings::sweep() {
  const std::lock_guard lock(mutex_);
  for (const Item& item : items_) {
    if (item.memory != nullptr) (void)item.driver->close_memory(item.device, item.memory);
    item.word->store(item.value, std::memory_order_release);  // pairs with DeviceLender::settle()
  }
  if (!items_.empty()) ++sweeps_;
  items_.clear();
}

std::uint64_t DeviceClosings::sweeps(bool* waiting) const {
  const std::lock_guard lock(mutex_);
  *waiting = std::any_of(items_.begin(), items_.end(), [](const Item& item) { return item.memory != nullptr; });
  return sweeps_;
}

}  // namespace tutti
