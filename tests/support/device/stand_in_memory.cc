// Where the stand-in's memory lies, and what is known of it.
#include <sys/mman.h>

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
  const auto found = memories_.find(static_cast<const std::byte*>(memory));
  if (found->second.descriptor >= 0) {
    unmap(memory, found->second.bytes, found->second.descriptor);
  } else {
    if (found->second.real != nullptr) ::munmap(memory, found->second.bytes);
    std::free(found->second.real != nullptr ? found->second.real : memory);
  }
  memories_.erase(found);
  return {};
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
