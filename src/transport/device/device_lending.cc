#include "transport/device/device_lending.h"

#include <algorithm>

#include "transport/device/deferred_unmaps.h"
#include "transport/shm/shm_layout.h"

namespace tutti {

namespace {
constexpr std::size_t kNone = kLentRegions;
}  // namespace

LendingPage& LendingPages::of(std::size_t rank) const {
  const Segment& segment = *segments_[rank];
  return *reinterpret_cast<LendingPage*>(segment.data() + segment.size().value - ShmLayout::kPage);
}

std::uint32_t DeviceLender::state_of(std::size_t index) const {
  return page().regions[index].state.load(std::memory_order_relaxed);  // this rank's own word
}

bool DeviceLender::have_all_answered(std::size_t index, bool* refused) const {
  *refused = false;
  for (std::size_t peer = 0; peer < pages_.size(); ++peer) {
    if (peer == self_) continue;
    // Pairs with DeviceBorrower::answer().
    const auto answer = pages_.of(peer).answers[self_][index].load(std::memory_order_acquire);
    if ((answer & ~LendingPage::kRefused) != state_of(index)) return false;
    *refused = *refused || (answer & LendingPage::kRefused) != 0;
  }
  return true;
}

bool DeviceLender::have_all_closed(const Retired& retired) const {
  for (std::size_t peer = 0; peer < pages_.size(); ++peer)  // pairs with DeferredUnmaps::sweep()
    if (peer != self_ && pages_.of(peer).closed[self_][retired.index].load(std::memory_order_acquire) < retired.state)
      return false;
  return true;
}

std::size_t DeviceLender::find(const DeviceDriver::Allocation& allocation) const {
  for (std::size_t i = 0; i < entries_.size(); ++i)
    if (is_lent(i) && !entries_[i].is_withdrawn && entries_[i].allocation.id == allocation.id) return i;
  return kNone;
}

void DeviceLender::advance(std::size_t index) {
  page().regions[index].state.fetch_add(1, std::memory_order_release);  // pairs with DeviceBorrower::take()
  page().changes.fetch_add(1, std::memory_order_release);               // pairs with DeviceBorrower::map_published()
}

std::size_t DeviceLender::publish(const DeviceDriver::Allocation& allocation) {
  std::size_t free = kNone;
  bool refused = false;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    // If lent memory overlaps the new allocation, it must have been freed since.
    if (is_lent(i) && entries_[i].allocation.overlaps(allocation)) entries_[i].is_withdrawn = true;
    if (free == kNone && !is_lent(i) && have_all_answered(i, &refused)) free = i;
  }
  // If peers do not close what was lent, nothing more is lent, because memory would pile up.
  if (free == kNone || allocation.id == failed_ || retired_.size() >= kLentRegions) return kNone;
  LendingPage::Region& region = page().regions[free];
  if (!driver_.export_memory(allocation.device, allocation.begin, &region.handle).ok()) {
    failed_ = allocation.id;
    return kNone;
  }
  region.address.store(reinterpret_cast<std::uintptr_t>(allocation.begin), std::memory_order_relaxed);
  entries_[free] = Entry{};
  entries_[free].allocation = allocation;
  entries_[free].held = DeviceAllocations::get().find(allocation.begin);
  advance(free);
  return free;
}

bool DeviceLender::lend(const DeviceRange& allocation, const std::byte* begin, std::size_t bytes, bool to_graph,
                        LentBuffer* buffer) {
  const MutexLock lock(mutex_);
  if (!allocation.is_exportable) return false;
  const auto offset = static_cast<std::size_t>(begin - allocation.begin);
  if (offset > allocation.bytes || bytes > allocation.bytes - offset) return false;
  std::size_t index = find(allocation);
  if (index == kNone && !to_graph) index = publish(allocation);
  bool refused = false;
  if (index == kNone || !have_all_answered(index, &refused) || refused) return false;
  (to_graph ? entries_[index].is_in_graph : entries_[index].is_launching) = true;
  *buffer = LentBuffer{allocation.begin, allocation.bytes, LentPlace::in_region(static_cast<std::uint32_t>(index), 0)};
  return true;
}

void DeviceLender::launched(const std::shared_ptr<CallEnd>& end) {
  const MutexLock lock(mutex_);
  for (Entry& entry : entries_)
    if (std::exchange(entry.is_launching, false)) entry.end = end;
}

void DeviceLender::withdraw(const void* memory) {
  const MutexLock lock(mutex_);
  for (Entry& entry : entries_)
    if (entry.allocation.holds(memory)) entry.is_withdrawn = true;
}

// A region's state moves on only when no call lends it any more, because until then peers' kernels may find its address
// in a message.
void DeviceLender::settle(const std::function<bool()>& has_failed) {
  const MutexLock lock(mutex_);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    if (!is_lent(i)) continue;
    if (entry.held != nullptr && entry.held->freed.load()) entry.is_withdrawn = true;
    const bool is_over = entry.is_withdrawn && !entry.is_in_graph && !entry.is_launching &&
                         (entry.end == nullptr || entry.end->has_ended());
    if (is_over && !has_failed()) retire(i);  // asked in this order, as a kernel that gives up says so before it ends
  }
  // The last holder of an allocation releases it, which may wait for kernels. It is never this one, as
  // DeviceAllocations holds it, too.
  std::erase_if(retired_, [this](const Retired& retired) { return have_all_closed(retired); });
}

void DeviceLender::retire(std::size_t index) {
  advance(index);
  Entry& entry = entries_[index];
  retired_.push_back({std::move(entry.held), index, state_of(index)});
  entry = Entry{};
}

std::vector<std::shared_ptr<DeviceAllocation>> DeviceLender::end() {
  const MutexLock lock(mutex_);
  std::vector<std::shared_ptr<DeviceAllocation>> held;
  for (Entry& entry : entries_)
    if (entry.held != nullptr) held.push_back(std::move(entry.held));
  for (Retired& retired : retired_)
    if (retired.held != nullptr) held.push_back(std::move(retired.held));
  retired_.clear();
  return held;
}

void DeviceBorrower::answer(std::size_t peer, std::size_t index, std::uint32_t answer) {
  // Pairs with DeviceLender::have_all_answered().
  pages_.of(static_cast<std::size_t>(links_.rank)).answers[peer][index].store(answer, std::memory_order_release);
}

// What is not lent any more is taken back first, because the driver may refuse to map other memory at the same address
// in the meantime.
Status DeviceBorrower::map_published(DeviceDriver::Stream stream) {
  const MutexLock lock(mutex_);
  answer_arrived();
  const std::uint64_t sweeps = DeferredUnmaps::get().sweeps();
  for (std::size_t p = 0; p < pages_.size(); ++p) {
    if (static_cast<std::int32_t>(p) == links_.rank) continue;
    Peer& peer = peers_[p];
    const auto changes = pages_.of(p).changes.load(std::memory_order_acquire);  // pairs with DeviceLender::advance()
    if (changes == peer.changes && !(peer.again && sweeps != sweeps_)) continue;
    peer.changes = changes;
    peer.again = false;
    for (std::size_t i = 0; i < kLentRegions; ++i) take(p, i);
    for (std::size_t i = 0; i < kLentRegions; ++i) TUTTI_TRY(map(p, i, stream));
  }
  sweeps_ = sweeps;
  return record_arrival(stream);
}

void DeviceBorrower::answer_arrived() {
  std::erase_if(pending_answers_, [this](const PendingAnswer& pending) TUTTI_REQUIRES(mutex_) {
    const bool is_old = peers_[pending.peer].regions[pending.index].state != pending.state;
    if (!is_old && !pending.arrived->has_ended()) return false;
    if (!is_old) answer(pending.peer, pending.index, pending.state);
    return true;
  });
}

// An even state means that the owner's calls have ended, so nothing here reads the memory any more.
void DeviceBorrower::take(std::size_t peer, std::size_t index) {
  const auto self = static_cast<std::size_t>(links_.rank);
  Known& known = peers_[peer].regions[index];
  // Pairs with DeviceLender::advance().
  const auto state = pages_.of(peer).regions[index].state.load(std::memory_order_acquire);
  if (state == known.state || state % 2 != 0) return;
  known.state = state;
  DeferredUnmaps::get().add({&driver_, device_, std::exchange(known.mapped, nullptr), pages_.segment(self),
                             &pages_.of(self).closed[peer][index], state});
  answer(peer, index, state);
}

// If mapping fails, it is tried again when something has been closed, because a mapping of freed memory at the same
// address may have been in the way.
Status DeviceBorrower::map(std::size_t peer, std::size_t index, DeviceDriver::Stream stream) {
  const LendingPage::Region& region = pages_.of(peer).regions[index];
  Known& known = peers_[peer].regions[index];
  const auto state = region.state.load(std::memory_order_acquire);  // pairs with DeviceLender::advance()
  if (state == known.state || state % 2 == 0) return {};
  std::uint64_t address = region.address.load(std::memory_order_relaxed);  // the state came after it
  if (processes_[peer] != processes_[static_cast<std::size_t>(links_.rank)]) {
    if (!driver_.open_memory(device_, region.handle, &known.mapped).ok()) {
      known.mapped = nullptr;
      peers_[peer].again = true;
      answer(peer, index, state | LendingPage::kRefused);
      return {};
    }
    address = reinterpret_cast<std::uintptr_t>(known.mapped);
  }
  known.state = state;
  pending_answers_.push_back({peer, index, state, nullptr});
  std::uint64_t* const place = links_.region(static_cast<std::int32_t>(peer), static_cast<std::uint32_t>(index));
  return driver_.write_word(device_, stream, place, address);
}

Status DeviceBorrower::record_arrival(DeviceDriver::Stream stream) {
  if (pending_answers_.empty() || pending_answers_.back().arrived != nullptr) return {};
  std::shared_ptr<DeviceEvent> arrived;
  TUTTI_TRY(DeviceEvent::record(driver_, device_, stream, &arrived));
  for (PendingAnswer& pending : pending_answers_)
    if (pending.arrived == nullptr) pending.arrived = arrived;
  return {};
}

std::vector<void*> DeviceBorrower::end() {
  const MutexLock lock(mutex_);
  std::vector<void*> mapped;
  for (Peer& peer : peers_)
    for (Known& known : peer.regions)
      if (known.mapped != nullptr) mapped.push_back(std::exchange(known.mapped, nullptr));
  return mapped;
}

}  // namespace tutti
