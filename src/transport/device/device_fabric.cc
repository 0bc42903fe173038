#include "transport/device/device_fabric.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/clock.h"
#include "device/quiet_moment.h"
#include "transport/device/deferred_frees.h"
#include "transport/device/deferred_unmaps.h"

namespace tutti {

namespace {
/// How long a communicator's end waits for other processes to close its memory. An abort must not take longer.
constexpr std::chrono::milliseconds kCloseTimeout{50};
constexpr std::chrono::microseconds kNap{100};
}  // namespace

DeviceFabric::DeviceFabric(DeviceDriver& driver, std::shared_ptr<BlockBudget> budget, Segments own, Segments others)
    : share_(std::move(budget)), memory_(std::make_unique<Memory>(driver)) {
  memory_->own = std::move(own);
  memory_->others = std::move(others);
  QuietFrees::get().sweep();
  DeferredFrees::get().sweep();
}

DeviceFabric::~DeviceFabric() {
  const std::shared_ptr<Memory> memory(std::move(memory_));
  QuietFrees::get().add([memory] { memory->close(); });
  if (!memory->exported) memory->others.clear();
  const auto end = Clock::now() + kCloseTimeout;
  while (memory->is_closed && !have_all_unmapped(memory->others) && Clock::now() < end)
    std::this_thread::sleep_for(kNap);
  for (auto& [rank, arena] : memory->kept) DeferredFrees::get().add({std::move(arena), memory->others});
  for (auto& allocation : memory->lent) DeferredFrees::get().add({std::move(allocation), memory->others});
  DeferredFrees::get().sweep();
}

// A failure leaves memory behind, and nobody could do anything about it.
void DeviceFabric::Memory::close() {
  for (const auto& [place, mapping] : mapped) (void)driver.close_memory(place.second, mapping);
  DeferredUnmaps::get().sweep(own);
  for (const auto& [device, mapping] : lent_here) (void)driver.close_memory(device, mapping);
  if (!lent_here.empty()) DeferredUnmaps::get().count_sweep();
  multicast = nullptr;
  tell_unmapped(own);
  is_closed = true;
}

void DeviceFabric::keep(Rank rank, std::shared_ptr<DeviceAllocation> arena) {
  const MutexLock lock(mutex_);
  memory_->kept[rank.value] = std::move(arena);
}

std::shared_ptr<DeviceAllocation> DeviceFabric::kept(Rank rank) {
  const MutexLock lock(mutex_);
  const auto found = memory_->kept.find(rank.value);
  return found == memory_->kept.end() ? nullptr : found->second;
}

DeviceFabric::Segments DeviceFabric::segments() {
  const MutexLock lock(mutex_);
  Segments all = memory_->others;
  for (std::size_t rank = 0; rank < memory_->own.size(); ++rank)
    if (memory_->own[rank] != nullptr) all[rank] = memory_->own[rank];
  return all;
}

void DeviceFabric::close_later(int device, void* memory) {
  const MutexLock lock(mutex_);
  memory_->lent_here.emplace_back(device, memory);
}

void DeviceFabric::release_later(std::shared_ptr<DeviceAllocation> allocation) {
  const MutexLock lock(mutex_);
  memory_->lent.push_back(std::move(allocation));
}

void DeviceFabric::expect_mappings() {
  const MutexLock lock(mutex_);
  memory_->exported = true;
}

Status DeviceFabric::open(Rank peer, int device, const DeviceDriver::Handle& handle, void** memory) {
  const MutexLock lock(mutex_);
  void*& known = memory_->mapped[{peer.value, device}];
  if (known == nullptr) {
    if (Status opened = memory_->driver.open_memory(device, handle, &known); !opened.ok()) {
      memory_->mapped.erase({peer.value, device});
      return opened;
    }
  }
  *memory = known;
  return {};
}

Status DeviceFabric::make_multicast(MulticastKind kind, std::vector<int> devices, Bytes bytes) {
  const MutexLock lock(mutex_);
  return MulticastBuffer::make(*memory_->driver.virtual_memory(), kind, std::move(devices), bytes, &memory_->multicast);
}

const MulticastBuffer* DeviceFabric::mirror() {
  const MutexLock lock(mutex_);
  return memory_->multicast.get();
}

void DeviceFabric::forget(Rank peer) {
  const MutexLock lock(mutex_);
  if (static_cast<std::size_t>(peer.value) < memory_->others.size())
    memory_->others[static_cast<std::size_t>(peer.value)] = nullptr;
}

}  // namespace tutti
