#include "core/memory.h"

#include <sys/mman.h>

#include <limits>

namespace tutti {

namespace {
constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
}  // namespace

std::uint64_t MemoryRanges::add(const void* begin, std::size_t bytes) {
  const MutexLock lock(mutex_);
  ranges_.emplace(next_, Range{reinterpret_cast<std::uintptr_t>(begin), bytes});
  return next_++;
}

bool MemoryRanges::remove(std::uint64_t handle, const void** begin) {
  const MutexLock lock(mutex_);
  const auto found = ranges_.find(handle);
  if (found == ranges_.end()) return false;
  if (begin != nullptr) *begin = reinterpret_cast<const void*>(found->second.begin);
  ranges_.erase(found);
  return true;
}

std::size_t MemoryRanges::remove_at(const void* begin) {
  const MutexLock lock(mutex_);
  for (auto it = ranges_.begin(); it != ranges_.end(); ++it) {
    if (it->second.begin != reinterpret_cast<std::uintptr_t>(begin)) continue;
    const std::size_t bytes = it->second.bytes;
    ranges_.erase(it);
    return bytes;
  }
  return 0;
}

bool MemoryRanges::contains(const void* begin, std::size_t bytes) const {
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  const MutexLock lock(mutex_);
  for (const auto& [handle, range] : ranges_)
    if (first >= range.begin && bytes <= range.bytes && first - range.begin <= range.bytes - bytes) return true;
  return false;
}

MemoryRanges& host_allocations() {
  static MemoryRanges* const ranges = new MemoryRanges;  // never destroyed: freed by whoever is last
  return *ranges;
}

Status allocate_host(Bytes bytes, void** memory) {
  if (bytes.value > std::numeric_limits<std::size_t>::max() / 2)
    return fail(Code::kInvalidArgument, "{} bytes is larger than memory can be", bytes.value);
  const std::size_t size = round_up(bytes.value == 0 ? 1 : bytes.value, bytes.value < kHugePage ? kPage : kHugePage);
  void* const pages = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return fail(Code::kSystemError, "out of memory allocating {} bytes", bytes.value);
  if (size >= kHugePage) ::madvise(pages, size, MADV_HUGEPAGE);  // a wish
  host_allocations().add(pages, size);
  *memory = pages;
  return {};
}

Status free_host(void* memory) {
  if (memory == nullptr) return {};
  const std::size_t size = host_allocations().remove_at(memory);
  if (size == 0) return fail(Code::kInvalidArgument, "this memory is not from tuttiMemAlloc, or was freed before");
  ::munmap(memory, size);
  return {};
}

}  // namespace tutti
