// The device memory that the kernels of a communicator's ranks reach: its owners, its mappings, and their end.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "core/status.h"
#include "core/units.h"
#include "device/device_driver.h"
#include "transport/device/block_budget.h"
#include "transport/device/device_allocation.h"
#include "transport/device/multicast_buffer.h"
#include "transport/shm/segment.h"

namespace tutti {

/// Device memory of a communicator as one process has it: its own ranks' arenas, and those of other processes that it
/// has mapped. Shared by the process's ranks; all of it lasts as long as any of them is there, because their kernels
/// use all of it. Any thread.
class DeviceFabric {
 public:
  using Segments = std::vector<std::shared_ptr<Segment>>;

  /// The ranks' shared memory, by rank: `own`: of this process's ranks, `others`: of the others; the rest is nullptr.
  DeviceFabric(DeviceDriver& driver, std::shared_ptr<BlockBudget> budget, Segments own, Segments others);
  /// Closes what was mapped and says so to the other processes. Own memory that they map is released when they have
  /// done so, too: waits for that a moment, and leaves it to a later communicator otherwise.
  ~DeviceFabric();
  DeviceFabric(const DeviceFabric&) = delete;
  DeviceFabric& operator=(const DeviceFabric&) = delete;

  /// What its ranks have of the process's devices, until its end: their kernels have ended then.
  BlockShare& share() { return share_; }

  /// A local rank's arena.
  void keep(Rank rank, std::shared_ptr<DeviceAllocation> arena);
  /// nullptr: not a local rank, or it could not allocate.
  std::shared_ptr<DeviceAllocation> kept(Rank rank);
  /// From now on other processes may have mapped what is kept.
  void expect_mappings();
  /// A peer's arena, for kernels of `device`; mapped once.
  Status open(Rank peer, int device, const DeviceDriver::Handle& handle, void** memory);
  /// All ranks' shared memory, by rank; nullptr: of one process, or of a dead rank.
  Segments segments();
  /// What a rank's kernels read of others', for as long as the rest.
  void close_later(int device, void* memory);
  /// What others' kernels read.
  void release_later(std::shared_ptr<DeviceAllocation> allocation);
  /// The mirrors of all ranks, which are of this process. By one of them.
  Status make_multicast(MulticastKind kind, std::vector<int> devices, Bytes bytes);
  /// nullptr: none were made.
  const MulticastBuffer* mirror();
  /// The rank's process is gone: it maps nothing any more.
  void forget(Rank peer);

 private:
  DeviceDriver& driver_;
  BlockShare share_;
  const Segments own_;
  Mutex mutex_;
  std::map<int, std::shared_ptr<DeviceAllocation>> kept_ TUTTI_GUARDED_BY(mutex_);  // by rank
  std::map<std::pair<int, int>, void*> mapped_ TUTTI_GUARDED_BY(mutex_);            // by rank and device
  std::vector<std::pair<int, void*>> lent_here_ TUTTI_GUARDED_BY(mutex_);           // by device
  std::vector<std::shared_ptr<DeviceAllocation>> lent_ TUTTI_GUARDED_BY(mutex_);
  std::unique_ptr<MulticastBuffer> multicast_ TUTTI_GUARDED_BY(mutex_);
  Segments others_ TUTTI_GUARDED_BY(mutex_);
  bool exported_ TUTTI_GUARDED_BY(mutex_) = false;
};

}  // namespace tutti
