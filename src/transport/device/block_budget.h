// How many streams and thread blocks the communicators of a process may use together on each device. Their kernels wait
// for peers while they run, so all that may run at the same time must fit.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "core/status.h"
#include "transport/device/device_info.h"

namespace tutti {

/// What the ranks of one communicator in this process want of one device: a stream each, and thread blocks.
struct BlockClaim {
  DeviceInfo card;
  std::uint32_t ranks = 0;
};

/// One per process. Thread-safe.
class BlockBudget {
 public:
  /// Takes the same number of blocks for every rank of all claims. `*blocks` is the most that is
  /// wanted and becomes what was taken. Fails with kUnsupported, and takes nothing, if several ranks share a device
  /// that has not even one block, or not a stream, for each.
  Status take(const std::vector<BlockClaim>& claims, std::uint32_t* blocks);
  void give_back(const std::vector<BlockClaim>& claims, std::uint32_t blocks);
  /// Gives back part of what was taken: each rank has `from` blocks and keeps `to`.
  void shrink(const std::vector<BlockClaim>& claims, std::uint32_t from, std::uint32_t to);

 private:
  struct Use {
    std::uint32_t streams = 0;
    std::uint32_t blocks = 0;
  };
  using Uuid = decltype(DeviceDriver::Identity::uuid);
  Status fit(const BlockClaim& claim, std::uint32_t* blocks) TUTTI_REQUIRES(mutex_);

  Mutex mutex_;
  std::map<Uuid, Use> uses_ TUTTI_GUARDED_BY(mutex_);  // entries stay: there are few devices
};

/// A communicator's part of the budget in one process, taken once for all its ranks there and given back at the end.
class BlockShare {
 public:
  explicit BlockShare(std::shared_ptr<BlockBudget> budget) : budget_(std::move(budget)) {}
  ~BlockShare() { give_back(); }
  BlockShare(const BlockShare&) = delete;
  BlockShare& operator=(const BlockShare&) = delete;

  /// The first call takes as BlockBudget::take() does; the others return its result.
  Status take(const std::vector<BlockClaim>& claims, std::uint32_t* blocks);
  /// Keeps only the blocks for each rank that all ranks of all processes have agreed on.
  void settle(std::uint32_t blocks);
  void give_back();

 private:
  const std::shared_ptr<BlockBudget> budget_;
  Mutex mutex_;
  bool asked_ TUTTI_GUARDED_BY(mutex_) = false;
  Status taken_ TUTTI_GUARDED_BY(mutex_);
  std::vector<BlockClaim> claims_ TUTTI_GUARDED_BY(mutex_);
  std::uint32_t blocks_ TUTTI_GUARDED_BY(mutex_) = 0;  // of each rank; 0: nothing is held
};

}  // namespace tutti
