// Whether and by what a communicator has failed for good.
#pragma once

#include <atomic>

#include "core/mutex.h"
#include "core/status.h"

namespace tutti {

/// Keeps the first failure. Any thread; asking costs one load while there is none.
class FailureState {
 public:
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  /// The first failure; ok while there is none.
  Status status() const {
    if (!failed()) return {};
    const MutexLock lock(mutex_);
    return first_;
  }
  /// Whether the first failure is a revocation.
  bool revoked() const {
    if (!failed()) return false;
    const MutexLock lock(mutex_);
    return revoked_;
  }
  /// True: this failure is the first. False: `*status` becomes the one that was.
  bool set(Status* status, bool revokes = false) {
    const MutexLock lock(mutex_);
    if (!first_.ok()) {
      *status = first_;
      return false;
    }
    first_ = *status;
    revoked_ = revokes;
    failed_.store(true, std::memory_order_release);
    return true;
  }

 private:
  std::atomic<bool> failed_{false};  // release once first_ is set, pairs with the acquire in failed()
  mutable Mutex mutex_;
  Status first_ TUTTI_GUARDED_BY(mutex_);
  bool revoked_ TUTTI_GUARDED_BY(mutex_) = false;
};

}  // namespace tutti
