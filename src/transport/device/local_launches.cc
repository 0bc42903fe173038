#include "transport/device/local_launches.h"

#include <algorithm>

#include "core/library_thread.h"
#include "device/quiet_moment.h"

namespace tutti {

void LocalLaunches::add(Rank rank, int device) {
  const MutexLock lock(mutex_);
  Local& local = ranks_[rank];
  local.device = device;
  if (!is_library_thread()) local.thread = std::this_thread::get_id();
}

LocalLaunches::~LocalLaunches() {
  const MutexLock lock(mutex_);
  ranks_.clear();
  count();
}

void LocalLaunches::leave(Rank rank) {
  const MutexLock lock(mutex_);
  ranks_.erase(rank);
  count();
}

/// Tells how many calls are half launched now. A rank that is alone waits for none of this process.
void LocalLaunches::count() {
  const bool is_torn = has_failed_ && std::any_of(ranks_.begin(), ranks_.end(),
                                                  [](const auto& known) { return !known.second.is_stopped; });
  if (is_torn && !is_torn_) HalfLaunchedCalls::get().begin_at_once();
  if (is_torn_ && !is_torn) HalfLaunchedCalls::get().end(1);
  is_torn_ = is_torn;
  std::uint64_t closed = opened_;
  if (ranks_.size() > 1 && !has_failed_)
    for (const auto& [rank, local] : ranks_) closed = std::min(closed, local.ended);
  if (closed == closed_) return;
  HalfLaunchedCalls::get().end(closed - closed_);
  closed_ = closed;
}

// The first rank that launches a call may have to wait for quiet moments to pass. The others wait here until it has. It
// keeps nobody from a launch that would end the wait, as no call of the process is half launched in such a moment.
void LocalLaunches::begin(Rank rank) {
  const MutexLock opening(opening_);
  {
    const MutexLock lock(mutex_);
    const std::uint64_t number = ++ranks_.at(rank).begun;
    if (ranks_.size() == 1 || has_failed_ || number <= opened_) return;
  }
  HalfLaunchedCalls::get().begin();
  const MutexLock lock(mutex_);
  ++opened_;
  if (has_failed_) count();
}

void LocalLaunches::end(Rank rank) {
  const MutexLock lock(mutex_);
  ++ranks_.at(rank).ended;
  count();
}

void LocalLaunches::note_thread(Rank rank) {
  const MutexLock lock(mutex_);
  if (const auto found = ranks_.find(rank); found != ranks_.end()) found->second.thread = std::this_thread::get_id();
}

bool LocalLaunches::share_device(Rank rank) const {
  const MutexLock lock(mutex_);
  const int device = ranks_.at(rank).device;
  return std::count_if(ranks_.begin(), ranks_.end(),
                       [device](const auto& known) { return known.second.device == device; }) > 1;
}

Rank LocalLaunches::missing(Rank rank) const {
  const MutexLock lock(mutex_);
  if (has_failed_) return kNoRank;
  const Local& own = ranks_.at(rank);
  for (const auto& [other, local] : ranks_)
    if (local.is_behind(own)) return other;
  return kNoRank;
}

Rank LocalLaunches::missing_elsewhere(Rank rank) const {
  const MutexLock lock(mutex_);
  if (has_failed_) return kNoRank;
  const Local& own = ranks_.at(rank);
  Rank missing = kNoRank;
  for (const auto& [other, local] : ranks_) {
    if (!local.is_behind(own)) continue;
    if (local.thread == std::this_thread::get_id()) return kNoRank;
    missing = other;
  }
  return missing;
}

void LocalLaunches::stop(Rank rank) {
  const MutexLock lock(mutex_);
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) return;
  has_failed_ = found->second.is_stopped = true;
  count();
}

}  // namespace tutti
