// Where the stand-in's memory lies, and what is known of it.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "support/device/stand_in_driver.h"

namespace tutti::test {

Status StandInDriver::take(std::size_t bytes, int device, void** memory) {
  if (device >= 0 && first_gpu_ >= 0) return take_shared(bytes, device, memory);
  const std::size_t whole = round_up(bytes, 256);
  Memory made{whole, device, nullptr, -1, false};
  *memory = std::aligned_alloc(256, whole);
  std::memset(*memory, 0, whole);
  if (hide_memory_ && device >= 0) {
    made.real = static_cast<std::byte*>(*memory);
    *memory = ::mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  const std::lock_guard lock(mutex_);
  made.id = ++last_memory_;
  memories_[static_cast<const std::byte*>(*memory)] = made;
  return {};
}

Status StandInDriver::give_back(void* memory) {
  const std::lock_guard lock(mutex_);
  sweep_late_frees();
  const auto found = memories_.find(static_cast<const std::byte*>(memory));
  std::vector<Marked> kernels;
  if (is_early()) kernels = kernels_.of(-1);
  if (kernels.empty()) {
    free_now(memory, found->second);
  } else {
    late_frees_.push_back({std::move(kernels), memory, found->second});
  }
  memories_.erase(found);
  return {};
}

void StandInDriver::free_now(void* address, const Memory& memory) {
  if (memory.descriptor >= 0) return unmap(address, memory.bytes, memory.descriptor);
  if (memory.real != nullptr) ::munmap(address, memory.bytes);
  std::free(memory.real != nullptr ? memory.real : address);
}

// Under the lock.
void StandInDriver::sweep_late_frees() {
  std::erase_if(late_frees_, [](const LateFree& late) {
    const auto has_ended = [](const Marked& kernel) { return kernel->reached(); };
    if (!std::all_of(late.kernels.begin(), late.kernels.end(), has_ended)) return false;
    free_now(late.address, late.memory);
    return true;
  });
}

// Under the lock.
const StandInDriver::Memory* StandInDriver::find(const void* memory, const std::byte** begin) {
  const auto* const address = static_cast<const std::byte*>(memory);
  const auto after = memories_.upper_bound(address);
  if (after == memories_.begin()) return nullptr;
  const auto& [first, known] = *std::prev(after);
  if (address >= first + known.bytes) return nullptr;
  *begin = first;
  return &known;
}

std::byte* StandInDriver::reveal(const void* memory) {
  const std::lock_guard lock(mutex_);
  auto* const address = static_cast<std::byte*>(const_cast<void*>(memory));
  const std::byte* begin = nullptr;
  const Memory* const known = find(memory, &begin);
  return known == nullptr || known->real == nullptr ? address : known->real + (address - begin);
}

}  // namespace tutti::test
