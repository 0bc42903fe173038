// Memory of a device whose communicator is gone while other processes may still have it mapped. The ranks' shared
// memory says when their processes have closed what they had mapped; a later communicator of this process looks there
// and releases the memory.
#pragma once

#include <memory>
#include <vector>

#include "core/mutex.h"
#include "transport/device/device_allocation.h"
#include "transport/shm/segment.h"

namespace tutti {

/// Writes into these ranks' shared memory that their processes have closed what they had mapped of others' memory.
/// Entries that are nullptr are left out.
void tell_unmapped(const std::vector<std::shared_ptr<Segment>>& segments);
/// Whether tell_unmapped() was called for all of these.
bool have_all_unmapped(const std::vector<std::shared_ptr<Segment>>& segments);

/// One per process. Thread-safe.
class DeferredFrees {
 public:
  struct Item {
    std::shared_ptr<DeviceAllocation> memory;
    std::vector<std::shared_ptr<Segment>> others;  ///< of the ranks that may have it mapped
  };
  static DeferredFrees& get();

  void add(Item item);
  /// Releases what nobody maps any more, if this is a quiet moment.
  void sweep();

 private:
  Mutex mutex_;
  std::vector<Item> items_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti
