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

// One thread at a time, so that words are stored in order; but nobody who adds or asks waits for it. What cannot be
// closed, because its owner has released it, is not there any more.
void DeviceClosings::sweep() {
  const std::lock_guard one(sweeping_);
  std::vector<Item> items;
  {
    const std::lock_guard lock(mutex_);
    items.swap(items_);
    closing_ = !items.empty();
  }
  for (const Item& item : items) {
    if (item.memory != nullptr) (void)item.driver->close_memory(item.device, item.memory);
    item.word->store(item.value, std::memory_order_release);  // pairs with DeviceLender::settle()
  }
  const std::lock_guard lock(mutex_);
  if (std::exchange(closing_, false)) ++sweeps_;
}

std::uint64_t DeviceClosings::sweeps(bool* waiting) const {
  const std::lock_guard lock(mutex_);
  *waiting =
      closing_ || std::any_of(items_.begin(), items_.end(), [](const Item& item) { return item.memory != nullptr; });
  return sweeps_;
}

}  // namespace tutti
