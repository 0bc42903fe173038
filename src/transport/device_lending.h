// Device memory that kernels of other processes read where it is. A rank publishes the allocations that its large
// messages lie in; peers map them at their next call and answer; once all have, messages are lent. Nobody waits.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "transport/device_allocation.h"
#include "transport/lending_page.h"

namespace tutti {

/// The owner's side, one a rank and communicator. Any thread.
class DeviceLender {
 public:
  /// `pages`: by rank, this one's included; they outlive this.
  DeviceLender(DeviceDriver& driver, Rank self, std::vector<LendingPage*> pages)
      : driver_(driver), self_(self), pages_(std::move(pages)) {}

  /// False: not all peers read this memory yet, or it cannot be mapped; begins to offer it.
  bool lend(const std::byte* begin, std::size_t bytes, LentBuffer* buffer);
  /// Lets go of what the caller has freed and nobody reads any more.
  void settle();
  /// What lies there is not lent any more.
  void withdraw(const void* memory);
  /// Whether all peers have closed what was withdrawn.
  bool is_withdrawn() const;
  /// What has to be there until no peer maps anything any more. Nothing is lent from now on.
  std::vector<std::shared_ptr<DeviceAllocation>> end();

 private:
  struct Entry {
    DeviceDriver::Allocation allocation;
    std::shared_ptr<DeviceAllocation> held;  // where tuttiMemAllocDevice gave it
  };
  LendingPage& page() const { return *pages_[static_cast<std::size_t>(self_.value)]; }
  bool is_lent(std::size_t index) const;
  bool have_all_answered(std::size_t index, bool* refused) const;
  std::size_t find(const DeviceDriver::Allocation& allocation) const;
  std::size_t publish(const DeviceDriver::Allocation& allocation);
  void advance(std::size_t index);

  DeviceDriver& driver_;
  const Rank self_;
  const std::vector<LendingPage*> pages_;
  mutable std::mutex mutex_;  // guards what follows, and this rank's regions
  std::array<Entry, kLentRegions> entries_;
};

/// The readers' side, one a rank and communicator. Any thread.
class DeviceBorrower {
 public:
  /// `links`: where kernels find what is mapped, in the rank's arena.
  DeviceBorrower(DeviceDriver& driver, int device, const DeviceLinks& links, std::vector<int> processes,
                 std::vector<LendingPage*> pages)
      : driver_(driver),
        device_(device),
        links_(links),
        processes_(std::move(processes)),
        pages_(std::move(pages)),
        peers_(pages_.size()) {}

  /// Maps what peers have published since, and closes what they have withdrawn. A load a peer where nothing changed,
  /// else it blocks for as long as mapping takes. Not ok: the device has failed.
  Status look();
  /// What is mapped; it is the caller's to close.
  std::vector<void*> end();

 private:
  struct Known {
    std::uint64_t state = 0;
    void* mapped = nullptr;  // of another process
  };
  struct Peer {
    std::uint64_t changes = 0;
    std::array<Known, kLentRegions> regions;
  };
  Status take(std::size_t peer, std::size_t index);
  Status tell_kernels(std::size_t peer, std::size_t index, std::uint64_t address);

  DeviceDriver& driver_;
  const int device_;
  const DeviceLinks& links_;
  const std::vector<int> processes_;
  const std::vector<LendingPage*> pages_;
  std::mutex mutex_;  // guards what follows, and this rank's answers
  std::vector<Peer> peers_;
};

}  // namespace tutti
