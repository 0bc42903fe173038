// The device memory that the kernels of a communicator's ranks reach. It is owned, mapped and released here.
#pragma once

#include <atomic>
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
#include "transport/device/local_launches.h"
#include "transport/device/multicast_buffer.h"
#include "transport/shm/segment.h"

namespace tutti {

/// The device memory that one process has for a communicator: the arenas of its own ranks, and the arenas of other
/// processes that it has mapped. The process's ranks share it; all of it lasts as long as any of them, because the
/// kernels of each use all of it. Any thread.
class DeviceFabric {
 public:
  using Segments = std::vector<std::shared_ptr<Segment>>;

  /// The ranks' shared memory, by rank. `own` has that of this process's ranks, `others` that of all other ranks; the
  /// remaining entries of both are nullptr.
  DeviceFabric(DeviceDriver& driver, std::shared_ptr<BlockBudget> budget, Segments own, Segments others);
  /// Closes what was mapped and says so to the other processes. This process's memory can be released only when they
  /// have closed it, too; waits for that for a moment, and otherwise leaves it to a later communicator. If this is no
  /// quiet moment, all of that is left to the next one.
  ~DeviceFabric();
  DeviceFabric(const DeviceFabric&) = delete;
  DeviceFabric& operator=(const DeviceFabric&) = delete;

  /// The streams and blocks of this process's ranks. They are given back when this is destroyed, as their kernels have
  /// ended by then.
  BlockShare& share() { return share_; }
  /// What this process's ranks have launched.
  LocalLaunches& launches() { return launches_; }

  /// Keeps the arena of a rank of this process.
  void keep(Rank rank, std::shared_ptr<DeviceAllocation> arena);
  /// Returns the rank's arena, or nullptr if the rank is of another process or could not allocate.
  std::shared_ptr<DeviceAllocation> kept(Rank rank);
  /// Called when other processes may begin to map what is kept.
  void expect_mappings();
  /// Maps a peer's arena for kernels of `device`, unless it is mapped for them already.
  Status open(Rank peer, int device, const DeviceDriver::Handle& handle, void** memory);
  /// All ranks' shared memory, by rank; nullptr for a dead rank, and for all ranks if there is only one process.
  Segments segments();
  /// Takes memory of other processes that a rank's kernels read, to close it when this is destroyed.
  void close_later(int device, void* memory);
  /// Takes memory of this process that other processes' kernels read, to release it after this is destroyed.
  void release_later(std::shared_ptr<DeviceAllocation> allocation);
  /// Makes the mirrors of all ranks, which are all of this process. One rank calls it.
  Status make_multicast(MulticastKind kind, std::vector<int> devices, Bytes bytes);
  /// Returns nullptr if no mirrors were made.
  const MulticastBuffer* mirror();
  /// Called when the rank's process is gone, which therefore maps nothing any more.
  void forget(Rank peer);

 private:
  struct Memory {
    explicit Memory(DeviceDriver& its_driver) : driver(its_driver) {}
    /// Ends all mappings, which may wait for kernels.
    void close();

    DeviceDriver& driver;
    Segments own;
    Segments others;
    std::map<int, std::shared_ptr<DeviceAllocation>> kept;  // by rank
    std::map<std::pair<int, int>, void*> mapped;            // by rank and device
    std::vector<std::pair<int, void*>> lent_here;           // by device
    std::vector<std::shared_ptr<DeviceAllocation>> lent;
    std::unique_ptr<MulticastBuffer> multicast;
    bool exported = false;
    std::atomic<bool> is_closed = false;  // needs no order
  };

  BlockShare share_;
  LocalLaunches launches_;
  Mutex mutex_;
  std::unique_ptr<Memory> memory_ TUTTI_POINTEE_GUARDED_BY(mutex_);
};

}  // namespace tutti
