#include "transport/device/deferred_frees.h"

#include <algorithm>
#include <utility>

#include "device/quiet_moment.h"
#include "transport/shm/shm_layout.h"

namespace tutti {

namespace {
std::atomic<std::uint32_t>& unmapped_word(const Segment& segment) {
  return reinterpret_cast<ControlPage*>(segment.front())->unmapped;
}
}  // namespace

void tell_unmapped(const std::vector<std::shared_ptr<Segment>>& segments) {
  for (const auto& segment : segments)  // pairs with the acquire in have_all_unmapped()
    if (segment != nullptr) unmapped_word(*segment).store(1, std::memory_order_release);
}

bool have_all_unmapped(const std::vector<std::shared_ptr<Segment>>& segments) {
  return std::all_of(segments.begin(), segments.end(), [](const std::shared_ptr<Segment>& segment) {
    return segment == nullptr || unmapped_word(*segment).load(std::memory_order_acquire) != 0;
  });
}

// Never destroyed, so that it outlives every communicator; the process's end frees what is in it.
DeferredFrees& DeferredFrees::get() {
  static DeferredFrees* const all = new DeferredFrees;
  return *all;
}

void DeferredFrees::add(Item item) {
  const MutexLock lock(mutex_);
  items_.push_back(std::move(item));
}

void DeferredFrees::sweep() {
  const QuietMoment now;
  if (!now.is_quiet()) return;
  const MutexLock lock(mutex_);
  std::erase_if(items_, [](const Item& item) { return have_all_unmapped(item.others); });
  DeviceAllocations::get().sweep();
}

}  // namespace tutti
