// Ranges of the caller's memory that the library knows: what tuttiMemAlloc gave and what was registered. What a driver
// says of device memory, in terms of no driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "core/mutex.h"
#include "core/status.h"
#include "core/units.h"

namespace tutti {

/// Where a pointer points.
struct MemoryPlace {
  bool on_device = false;  ///< kernels may use it; else host memory, pinned or not
  int device = -1;         ///< the one whose memory it is; -1: any device may use it
  bool on_host = false;    ///< it is device memory that the processor may use, too, also while kernels run
};

/// The whole of one allocation of device memory, which a pointer may point into the middle of.
struct DeviceRange {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
  std::uint64_t id = 0;  ///< no other allocation of the process ever has the same
  int device = -1;
  bool is_exportable = false;  ///< kernels of all devices that reach this one may use it; other processes may map it

  bool holds(const void* memory) const {
    return reinterpret_cast<std::uintptr_t>(memory) - reinterpret_cast<std::uintptr_t>(begin) < bytes;
  }
  bool overlaps(const DeviceRange& other) const { return holds(other.begin) || other.holds(begin); }
};

/// Thread-safe. Ranges may overlap and repeat.
class MemoryRanges {
 public:
  /// The range's handle, never 0.
  std::uint64_t add(const void* begin, std::size_t bytes);
  /// False: there is no such range. `begin`: where it was.
  bool remove(std::uint64_t handle, const void** begin = nullptr);
  /// The size of the range that begins here, which is removed; 0: none does.
  std::size_t remove_at(const void* begin);
  /// Whether one range holds all of it.
  bool contains(const void* begin, std::size_t bytes) const;

 private:
  struct Range {
    std::uintptr_t begin;
    std::size_t bytes;
  };
  mutable Mutex mutex_;
  std::map<std::uint64_t, Range> ranges_ TUTTI_GUARDED_BY(mutex_);  // by handle
  std::uint64_t next_ TUTTI_GUARDED_BY(mutex_) = 1;
};

/// What allocate_host() gave and free_host() has not taken back: an allocator's own book, one per process.
MemoryRanges& host_allocations();

/// Page-aligned, zeroed, of huge pages where the system grants them. kSystemError: there is not that much.
Status allocate_host(Bytes bytes, void** memory);
/// kInvalidArgument: allocate_host did not give this. nullptr is fine.
Status free_host(void* memory);

}  // namespace tutti
