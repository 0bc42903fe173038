// The device side of a communicator whose ranks' kernels reach one another's memory: which device each rank uses, its
// arena, and whether all reach one another. Made at join; afterwards only read.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/mutex.h"
#include "core/settings.h"
#include "core/status.h"
#include "device/device_driver.h"
#include "transport/device/block_budget.h"
#include "transport/device/device_allocation.h"
#include "transport/device/device_info.h"
#include "transport/device/device_lending.h"
#include "transport/device/multicast_buffer.h"
#include "transport/rank_exchange.h"
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

/// One rank's part of it: its arena, its stream and its report.
class RankDeviceLinks {
 public:
  /// `device`: this process's number of the device of `rank`, which counts among the peers.
  RankDeviceLinks(std::shared_ptr<DeviceFabric> fabric, DeviceDriver& driver, int device, Rank rank, DevicePeers peers)
      : fabric_(std::move(fabric)), driver_(driver), device_(device), rank_(rank), peers_(std::move(peers)) {}
  ~RankDeviceLinks();
  RankDeviceLinks(const RankDeviceLinks&) = delete;
  RankDeviceLinks& operator=(const RankDeviceLinks&) = delete;

  /// Meets the other ranks: all have links then, or none has and the status says why, the same on all. `kernels` are
  /// loaded. Blocks for as long as it takes to allocate.
  Status open(Bytes slot, MulticastMode multicast, std::span<const Kernel* const> kernels, RankExchange& ranks);
  /// What all conclude from what each found: if several are not ok, that of the lowest rank that found more than that
  /// others are late.
  static Status agree(const Status& mine, RankExchange& ranks);

  DeviceDriver& driver() const { return driver_; }
  int device() const { return device_; }
  /// What the communicator calls a rank of the links.
  Rank number(Rank rank) const {
    return rank == kNoRank ? kNoRank : Rank{peers_.number(static_cast<std::size_t>(rank.value))};
  }
  const DeviceLinks& links() const { return links_; }
  DeviceDriver::Stream stream() const { return stream_; }
  /// Of ranks in several processes, all alive at the join; else nullptr.
  DeviceLender* lender() const { return lender_.get(); }
  DeviceBorrower* borrower() const { return borrower_.get(); }
  Bytes memory() const { return arena_bytes() + multicast_bytes_; }
  /// Not ok: they could not be set up, though all ranks' devices have multicast.
  const Status& why_no_multicast() const { return why_no_multicast_; }

 private:
  struct BlockOffer;
  struct ArenaOffer;
  std::uint32_t most_blocks() const;
  std::vector<BlockClaim> claims() const;
  Status agree_on_blocks(RankExchange& ranks, std::uint32_t* blocks);
  void make_geometry(Bytes slot, std::uint32_t blocks);
  Bytes arena_bytes() const;
  Status allocate(std::span<const Kernel* const> kernels, DeviceDriver::Handle* handle);
  Status reach_peers(const std::vector<ArenaOffer>& offers);
  void open_lending();
  MulticastKind wished_multicast(MulticastMode mode) const;
  Status open_multicast(const std::vector<ArenaOffer>& offers, RankExchange& ranks);

  const std::shared_ptr<DeviceFabric> fabric_;
  DeviceDriver& driver_;
  const int device_;
  const Rank rank_;
  const DevicePeers peers_;
  DeviceLinks links_;
  Bytes multicast_bytes_{0};
  Status why_no_multicast_;
  DeviceDriver::Stream stream_ = nullptr;
  std::unique_ptr<DeviceLender> lender_;
  std::unique_ptr<DeviceBorrower> borrower_;
};

}  // namespace tutti
