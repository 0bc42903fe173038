// Device memory that kernels of other processes read where it is. A rank publishes the allocations that its large
// messages lie in; peers map them at their next call and answer at a later one. Once all have answered, messages are
// lent.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "core/mutex.h"
#include "device/call_end.h"
#include "transport/device/device_allocation.h"
#include "transport/device/lending_page.h"
#include "transport/shm/segment.h"

namespace tutti {

/// All ranks' shared memory, by rank. The last page of each segment is its rank's LendingPage.
class LendingPages {
 public:
  explicit LendingPages(std::vector<std::shared_ptr<Segment>> segments) : segments_(std::move(segments)) {}
  std::size_t size() const { return segments_.size(); }
  LendingPage& of(std::size_t rank) const;
  const std::shared_ptr<Segment>& segment(std::size_t rank) const { return segments_[rank]; }

 private:
  std::vector<std::shared_ptr<Segment>> segments_;
};

/// The owner's side, one per rank and communicator. Any thread.
class DeviceLender {
 public:
  DeviceLender(DeviceDriver& driver, Rank self, LendingPages pages)
      : driver_(driver), self_(static_cast<std::size_t>(self.value)), pages_(std::move(pages)) {}

  /// Lends memory, a part of `allocation`, to a call that is about to be launched. Returns false if not all peers'
  /// kernels know this memory yet, or one cannot map it; then begins to offer it if it was not offered. `to_graph` says
  /// that the call becomes part of a graph, which may run until the communicator ends: so long the memory stays, and it
  /// is not offered now.
  bool lend(const DeviceRange& allocation, const std::byte* begin, std::size_t bytes, bool to_graph,
            LentBuffer* buffer);
  /// Called when the call that the last calls of lend() were for has been launched. When it has come to its end, nobody
  /// uses what it lent any more.
  void launched(const std::shared_ptr<CallEnd>& end);
  /// The allocation that holds this is not lent to calls from now on.
  void withdraw(const void* memory);
  /// Tells the peers what is not lent any more, and lets go of what they have closed. `has_failed` says whether a
  /// kernel of the rank has given up; in that case others may still read what it had lent.
  void settle(const std::function<bool()>& has_failed);
  /// Returns the memory that has to stay until no peer maps anything any more.
  std::vector<std::shared_ptr<DeviceAllocation>> end();

 private:
  struct Entry {
    DeviceDriver::Allocation allocation;
    std::shared_ptr<DeviceAllocation> held;  // if tuttiMemAllocDevice gave it, else nullptr
    bool is_withdrawn = false;               // is not lent to new calls; calls that lend it may be under way
    bool is_launching = false;
    bool is_in_graph = false;
    std::shared_ptr<CallEnd> end;  // of the last call that lends it
  };
  /// An allocation that is not lent any more, but that peers may still have mapped.
  struct Retired {
    std::shared_ptr<DeviceAllocation> held;
    std::size_t index;
    std::uint32_t state;
  };
  LendingPage& page() const { return pages_.of(self_); }
  std::uint32_t state_of(std::size_t index) const TUTTI_REQUIRES(mutex_);
  bool is_lent(std::size_t index) const TUTTI_REQUIRES(mutex_) { return state_of(index) % 2 != 0; }
  bool have_all_answered(std::size_t index, bool* refused) const TUTTI_REQUIRES(mutex_);
  bool have_all_closed(const Retired& retired) const;
  std::size_t find(const DeviceDriver::Allocation& allocation) const TUTTI_REQUIRES(mutex_);
  std::size_t publish(const DeviceDriver::Allocation& allocation) TUTTI_REQUIRES(mutex_);
  void advance(std::size_t index) TUTTI_REQUIRES(mutex_);
  void retire(std::size_t index) TUTTI_REQUIRES(mutex_);

  DeviceDriver& driver_;
  const std::size_t self_;
  const LendingPages pages_;
  mutable Mutex mutex_;  // guards also this rank's regions, which it alone writes
  std::array<Entry, kLentRegions> entries_ TUTTI_GUARDED_BY(mutex_);
  std::vector<Retired> retired_ TUTTI_GUARDED_BY(mutex_);
  std::uint64_t failed_ TUTTI_GUARDED_BY(mutex_) = 0;  // the last allocation that could not be exported
};

/// The readers' side, one per rank and communicator. Any thread.
class DeviceBorrower {
 public:
  /// Kernels find the addresses of what is mapped in the arena of `links`.
  DeviceBorrower(DeviceDriver& driver, int device, const DeviceLinks& links, std::vector<int> processes,
                 LendingPages pages)
      : driver_(driver),
        device_(device),
        links_(links),
        processes_(std::move(processes)),
        pages_(std::move(pages)),
        peers_(pages_.size()) {}

  /// Maps what peers have published since the last look; kernels that are put on `stream` from now on know it. Costs
  /// one load for each peer that has changed nothing. Fails only if the device has failed.
  Status map_published(DeviceDriver::Stream stream);
  /// Returns what is mapped, which the caller has to close.
  std::vector<void*> end();

 private:
  struct Known {
    std::uint32_t state = 0;
    void* mapped = nullptr;  // if the peer is of another process
  };
  struct Peer {
    std::uint64_t changes = 0;
    std::array<Known, kLentRegions> regions;
    bool again = false;  // something could not be mapped; it is tried again when other memory has been closed
  };
  /// An answer about an address that kernels know once the event has come.
  struct PendingAnswer {
    std::size_t peer;
    std::size_t index;
    std::uint32_t state;
    std::shared_ptr<DeviceEvent> arrived;  // nullptr until it is recorded
  };
  void answer(std::size_t peer, std::size_t index, std::uint32_t answer) TUTTI_REQUIRES(mutex_);
  void answer_arrived() TUTTI_REQUIRES(mutex_);
  void take(std::size_t peer, std::size_t index) TUTTI_REQUIRES(mutex_);
  Status map(std::size_t peer, std::size_t index, DeviceDriver::Stream stream) TUTTI_REQUIRES(mutex_);
  Status record_arrival(DeviceDriver::Stream stream) TUTTI_REQUIRES(mutex_);

  DeviceDriver& driver_;
  const int device_;
  const DeviceLinks& links_;
  const std::vector<int> processes_;
  const LendingPages pages_;
  Mutex mutex_;  // guards also this rank's answers, which it alone writes
  std::vector<Peer> peers_ TUTTI_GUARDED_BY(mutex_);
  std::vector<PendingAnswer> pending_answers_ TUTTI_GUARDED_BY(mutex_);
  std::uint64_t sweeps_ TUTTI_GUARDED_BY(mutex_) = 0;  // those of DeferredUnmaps at the last look
};

}  // namespace tutti
