// Memory of a device whose communicator is gone while other processes may still have it mapped. The ranks' shared
// memory says when their processes have closed what they had mapped; a later communicator of this process looks.
#pragma once

#include <memory>
#include <vector>

#include "core/mutex.h"
#include "transport/device/device_allocation.h"
#include "transport/shm/segment.h"

namespace tutti {

/// The ranks' processes have closed what they had mapped of others' memory. `segments`: the ranks' shared memory;
/// nullptr: not meant.
void tell_unmapped(const std::vector<std::shared_ptr<Segment>>& segments);
/// Whether all of them have told so.
bool have_all_unmapped(const std::vector<std::shared_ptr<Segment>>& segments);

/// One per process. Thread-safe.
class DeferredFrees {
 public:
  struct Item {
    std::shared_ptr<DeviceAllocation> memory;
    std::vector<std::shared_ptr<Segment>> others;  ///< of those who may have it mapped
  };
  static DeferredFrees& get();

  void add(Item item);
  /// Releases what nobody maps any more.
  void sweep();

 private:
  Mutex mutex_;
  std::vector<Item> items_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti
