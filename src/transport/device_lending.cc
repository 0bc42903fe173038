#include "transport/device_lending.h"

namespace tutti {

namespace {
constexpr std::size_t kNone = kLentRegions;
bool is_odd(std::uint64_t state) { return state % 2 != 0; }
}  // namespace

bool DeviceLender::is_lent(std::size_t index) const {
  return is_odd(page().regions[index].state.load(std::memory_order_relaxed));  // this rank's own word
}

bool DeviceLender::have_all_answered(std::size_t index, bool* refused) const {
  const std::uint64_t state = page().regions[index].state.load(std::memory_order_relaxed);
  *refused = false;
  for (const LendingPage* const peer : pages_) {
    if (peer == &page()) continue;
    // Pairs with DeviceBorrower::take().
    const auto answer = peer->answers[self_.value][index].load(std::memory_order_acquire);
    if ((answer & ~LendingPage::kRefused) != state) return false;
    *refused = *refused || (answer & LendingPage::kRefused) != 0;
  }
  return true;
}

std::size_t DeviceLender::find(const DeviceDriver::Allocation& allocation) const {
  for (std::size_t i = 0; i < entries_.size(); ++i)
    if (is_lent(i) && entries_[i].allocation.id == allocation.id) return i;
  return kNone;
}

void DeviceLender::advance(std::size_t index) {
  page().regions[index].state.fetch_add(1, std::memory_order_release);  // pairs with DeviceBorrower::take()
  page().changes.fetch_add(1, std::memory_order_release);               // pairs with DeviceBorrower::look()
}

// Where memory has been freed, another allocation may lie at its address.
std::size_t DeviceLender::publish(const DeviceDriver::Allocation& allocation) {
  std::size_t free = kNone;
  bool refused = false;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (is_lent(i) && entries_[i].allocation.overlaps(allocation)) advance(i);
    if (free == kNone && !is_lent(i) && have_all_answered(i, &refused)) free = i;
  }
  if (free == kNone) return kNone;
  LendingPage::Region& region = page().regions[free];
  if (!driver_.export_memory(allocation.device, allocation.begin, &region.handle).ok()) return kNone;
  region.address.store(reinterpret_cast<std::uintptr_t>(allocation.begin), std::memory_order_relaxed);
  entries_[free] = Entry{allocation, DeviceAllocations::get().find(allocation.begin)};
  advance(free);
  return free;
}

// Whoever holds an allocation last releases it, which may wait for kernels: never this, as DeviceAllocations has it.
void DeviceLender::settle() {
  const std::lock_guard lock(mutex_);
  bool refused = false;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].held == nullptr) continue;
    if (is_lent(i) && entries_[i].held->freed.load()) advance(i);
    if (!is_lent(i) && have_all_answered(i, &refused)) entries_[i].held = nullptr;
  }
}

bool DeviceLender::lend(const std::byte* begin, std::size_t bytes, LentBuffer* buffer) {
  const std::lock_guard lock(mutex_);
  DeviceDriver::Allocation allocation;
  if (!driver_.allocation_of(begin, &allocation).ok() || !allocation.is_exportable) return false;
  const auto offset = static_cast<std::size_t>(begin - allocation.begin);
  if (offset > allocation.bytes || bytes > allocation.bytes - offset) return false;
  std::size_t index = find(allocation);
  if (index == kNone) index = publish(allocation);
  bool refused = false;
  if (index == kNone || !have_all_answered(index, &refused) || refused) return false;
  *buffer = LentBuffer{allocation.begin, allocation.bytes, LentPlace::in_region(static_cast<std::uint32_t>(index), 0)};
  return true;
}

void DeviceLender::withdraw(const void* memory) {
  const auto* const address = static_cast<const std::byte*>(memory);
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < entries_.size(); ++i)
    if (is_lent(i) && entries_[i].allocation.holds(address)) advance(i);
}

bool DeviceLender::is_withdrawn() const {
  const std::lock_guard lock(mutex_);
  bool refused = false;
  for (std::size_t i = 0; i < entries_.size(); ++i)
    if (!is_lent(i) && !have_all_answered(i, &refused)) return false;
  return true;
}

std::vector<std::shared_ptr<DeviceAllocation>> DeviceLender::end() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<DeviceAllocation>> held;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (is_lent(i)) advance(i);
    if (entries_[i].held != nullptr) held.push_back(std::move(entries_[i].held));
  }
  return held;
}

Status DeviceBorrower::look() {
  const std::lock_guard lock(mutex_);
  for (std::size_t peer = 0; peer < pages_.size(); ++peer) {
    if (static_cast<std::int32_t>(peer) == links_.rank) continue;
    const std::uint64_t changes = pages_[peer]->changes.load(std::memory_order_acquire);  // pairs with advance()
    if (changes == peers_[peer].changes) continue;
    for (std::size_t i = 0; i < kLentRegions; ++i) TUTTI_TRY(take(peer, i));
    peers_[peer].changes = changes;
  }
  return {};
}

// Kernels that were started earlier look it up in the arena too, so it is there before the answer is.
Status DeviceBorrower::take(std::size_t peer, std::size_t index) {
  LendingPage::Region& region = pages_[peer]->regions[index];
  Known& known = peers_[peer].regions[index];
  const std::uint64_t state = region.state.load(std::memory_order_acquire);  // pairs with DeviceLender::advance()
  if (state == known.state) return {};
  if (known.mapped != nullptr) TUTTI_TRY(driver_.close_memory(device_, known.mapped));
  known.mapped = nullptr;
  bool refused = false;
  if (is_odd(state)) {
    const bool here = processes_[peer] == processes_[static_cast<std::size_t>(links_.rank)];
    if (!here) refused = !driver_.open_memory(device_, region.handle, &known.mapped).ok();
    const auto address = here ? region.address.load(std::memory_order_relaxed)  // the state came behind it
                              : reinterpret_cast<std::uintptr_t>(known.mapped);
    if (!refused) TUTTI_TRY(tell_kernels(peer, index, address));
  }
  known.state = state;
  // Pairs with DeviceLender::have_all_answered().
  pages_[static_cast<std::size_t>(links_.rank)]->answers[peer][index].store(
      state | (refused ? LendingPage::kRefused : 0), std::memory_order_release);
  return {};
}

Status DeviceBorrower::tell_kernels(std::size_t peer, std::size_t index, std::uint64_t address) {
  std::uint64_t* const place = links_.region(static_cast<std::int32_t>(peer), static_cast<std::uint32_t>(index));
  return copy_beside(driver_, device_, place, &address, Bytes{sizeof address});
}

std::vector<void*> DeviceBorrower::end() {
  const std::lock_guard lock(mutex_);
  std::vector<void*> mapped;
  for (Peer& peer : peers_)
    for (Known& known : peer.regions)
      if (known.mapped != nullptr) mapped.push_back(std::exchange(known.mapped, nullptr));
  return mapped;
}

}  // namespace tutti
