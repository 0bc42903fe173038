// What the communicators of a process may have of its devices together. Their kernels wait for peers while they run, so
// all that may run at the same time must fit.
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
  /// Takes the same number of blocks for every rank of all claims: as many of `*blocks` as there are, a power of two.
  /// kUnsupported: not even one per rank, or not a stream per rank, of several ranks on one device; nothing is
  /// taken then.
  Status take(const std::vector<BlockClaim>& claims, std::uint32_t* blocks);
  void give_back(const std::vector<BlockClaim>& claims, std::uint32_t blocks);
  /// Of what was taken, only so many blocks a rank are used.
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

/// A communicator's part of it in one process: taken once for all its ranks there, given back at the end.
class BlockShare {
 public:
  explicit BlockShare(std::shared_ptr<BlockBudget> budget) : budget_(std::move(budget)) {}
  ~BlockShare() { give_back(); }
  BlockShare(const BlockShare&) = delete;
  BlockShare& operator=(const BlockShare&) = delete;

  /// The first call takes, the others hear what became of it. `blocks`: a rank's, most and got.
  Status take(const std::vector<BlockClaim>& claims, std::uint32_t* blocks);
  /// All ranks of all processes have agreed on so many.
  void settle(std::uint32_t blocks);
  void give_back();

 private:
  const std::shared_ptr<BlockBudget> budget_;
  Mutex mutex_;
  bool asked_ TUTTI_GUARDED_BY(mutex_) = false;
  Status taken_ TUTTI_GUARDED_BY(mutex_);
  std::vector<BlockClaim> claims_ TUTTI_GUARDED_BY(mutex_);
  std::uint32_t blocks_ TUTTI_GUARDED_BY(mutex_) = 0;  // a rank's; 0: nothing is held
};

}  // namespace tutti
