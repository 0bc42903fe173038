#include "comm/recovery/shrink_call.h"

#include <utility>

namespace tutti {

void ShrinkCall::build(Build order) {
  const MutexLock lock(mutex_);
  wanted_ = order.number;
  build_ = std::move(order);
  changed_.notify_all();
}

void ShrinkCall::end(End how) {
  const MutexLock lock(mutex_);
  if (end_) return;
  end_ = std::move(how);
  changed_.notify_all();
}

void ShrinkCall::wait(Clock::duration most) {
  MutexLock lock(mutex_);
  const Clock::time_point until = Clock::now() + most;
  while (!build_ && !end_ && changed_.wait_until(lock, until)) continue;
}

std::optional<ShrinkCall::Build> ShrinkCall::take_build() {
  const MutexLock lock(mutex_);
  return std::exchange(build_, std::nullopt);
}

std::optional<ShrinkCall::End> ShrinkCall::ended() const {
  const MutexLock lock(mutex_);
  return end_;
}

bool ShrinkCall::wants(std::uint64_t number) const {
  const MutexLock lock(mutex_);
  return !end_ && wanted_ == number;
}

}  // namespace tutti
