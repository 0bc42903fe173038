#include "transport/device/device_fabric.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/clock.h"
#include "transport/device/deferred_frees.h"
#include "transport/device/deferred_unmaps.h"

namespace tutti {

namespace {
/// How long a communicator's end waits for other processes to close its memory. An abort must not take longer.
constexpr std::chrono::milliseconds kCloseTimeout{50};
constexpr std::chrono::microseconds kNap{100};
}  // namespace

DeviceFabric::DeviceFabric(DeviceDriver& driver, std::shared_ptr<BlockBudget> budget, Segments own, Segments others)
    : driver_(driver), share_(std::move(budget)), own_(std::move(own)), others_(std::move(others)) {
  DeferredFrees::get().sweep();
}

// A failure leaves memory behind, and nobody could do anything about it.
DeviceFabric::~DeviceFabric() {
  for (const auto& [place, memory] : mapped_) (void)driver_.close_memory(place.second, memory);
  DeferredUnmaps::get().sweep(own_);
  for (const auto& [device, memory] : lent_here_) (void)driver_.close_memory(device, memory);
  if (!lent_here_.empty()) DeferredUnmaps::get().count_sweep();
  tell_unmapped(own_);
  if (!exported_) others_.clear();
  const auto end = Clock::now() + kCloseTimeout;
  while (!have_all_unmapped(others_) && Clock::now() < end) std::this_thread::sleep_for(kNap);
  for (auto& [rank, arena] : kept_) DeferredFrees::get().add({std::move(arena), others_});
  for (auto& allocation : lent_) DeferredFrees::get().add({std::move(allocation), others_});
  DeferredFrees::get().sweep();
}

void DeviceFabric::keep(Rank rank, std::shared_ptr<DeviceAllocation> arena) {
  const MutexLock lock(mutex_);
  kept_[rank.value] = std::move(arena);
}

std::shared_ptr<DeviceAllocation> DeviceFabric::kept(Rank rank) {
  const MutexLock lock(mutex_);
  const auto found = kept_.find(rank.value);
  return found == kept_.end() ? nullptr : found->second;
}

DeviceFabric::Segments DeviceFabric::segments() {
  const MutexLock lock(mutex_);
  Segments all = others_;
  for (std::size_t rank = 0; rank < own_.size(); ++rank)
    if (own_[rank] != nullptr) all[rank] = own_[rank];
  return all;
}

void DeviceFabric::close_later(int device, void* memory) {
  const MutexLock lock(mutex_);
  lent_here_.emplace_back(device, memory);
}

void DeviceFabric::release_later(std::shared_ptr<DeviceAllocation> allocation) {
  const MutexLock lock(mutex_);
  lent_.push_back(std::move(allocation));
}

void DeviceFabric::expect_mappings() {
  const MutexLock lock(mutex_);
  exported_ = true;
}

Status DeviceFabric::open(Rank peer, int device, const DeviceDriver::Handle& handle, void** memory) {
  const MutexLock lock(mutex_);
  void*& known = mapped_[{peer.value, device}];
  if (known == nullptr) {
    if (Status opened = driver_.open_memory(device, handle, &known); !opened.ok()) {
      mapped_.erase({peer.value, device});
      return opened;
    }
  }
  *memory = known;
  return {};
}

Status DeviceFabric::make_multicast(MulticastKind kind, std::vector<int> devices, Bytes bytes) {
  const MutexLock lock(mutex_);
  return MulticastBuffer::make(*driver_.virtual_memory(), kind, std::move(devices), bytes, &multicast_);
}

const MulticastBuffer* DeviceFabric::mirror() {
  const MutexLock lock(mutex_);
  return multicast_.get();
}

void DeviceFabric::forget(Rank peer) {
  const MutexLock lock(mutex_);
  if (static_cast<std::size_t>(peer.value) < others_.size()) others_[static_cast<std::size_t>(peer.value)] = nullptr;
}

}  // namespace tutti
