#include "transport/device/deferred_unmaps.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "device/quiet_moment.h"

namespace tutti {

// Never destroyed: the process's end unmaps what is in it.
DeferredUnmaps& DeferredUnmaps::get() {
  static DeferredUnmaps* const all = new DeferredUnmaps;
  return *all;
}

void DeferredUnmaps::add(Item item) {
  const MutexLock lock(mutex_);
  items_.push_back(std::move(item));
}

template <class Match>
std::vector<DeferredUnmaps::Item> DeferredUnmaps::take(const Match& match) {
  const MutexLock lock(mutex_);
  const auto taken =
      std::stable_partition(items_.begin(), items_.end(), [&](const Item& item) { return !match(item); });
  std::vector<Item> items(std::make_move_iterator(taken), std::make_move_iterator(items_.end()));
  items_.erase(taken, items_.end());
  return items;
}

// A failure means that the owner has released the memory already, so there is nothing left to close.
void DeferredUnmaps::close(const std::vector<Item>& items) {
  for (const Item& item : items) {
    if (item.memory != nullptr) (void)item.driver->close_memory(item.device, item.memory);
    item.word->store(item.value, std::memory_order_release);  // pairs with DeviceLender::have_all_closed()
  }
  if (!items.empty()) count_sweep();
}

// One thread at a time does this, so that a word's values are stored in order.
void DeferredUnmaps::sweep(int device) {
  const QuietMoment now;
  if (!now.is_quiet() || !sweeping_.try_lock()) return;
  const MutexLock lock(sweeping_, std::adopt_lock);
  close(take([device](const Item& item) { return item.device == device; }));
}

void DeferredUnmaps::sweep(const std::vector<std::shared_ptr<Segment>>& ended) {
  close(take([&](const Item& item) { return std::find(ended.begin(), ended.end(), item.segment) != ended.end(); }));
}

}  // namespace tutti
