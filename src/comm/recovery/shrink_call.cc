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

ShrinkCall::End ShrinkCall::take_end() {
  const MutexLock lock(mutex_);
  return std::move(*end_);
}

bool ShrinkCall::has_ended() const {
  const MutexLock lock(mutex_);
  return end_.has_value();
}

void ShrinkCall::report(std::uint64_t number, const Status& why) {
  const MutexLock lock(mutex_);
  report_ = Report{number, why};
}

std::optional<ShrinkCall::Report> ShrinkCall::take_report() {
  const MutexLock lock(mutex_);
  return std::exchange(report_, std::nullopt);
}

void ShrinkCall::abandon() {
  const MutexLock lock(mutex_);
  abandoned_ = true;
}

bool ShrinkCall::is_abandoned() const {
  const MutexLock lock(mutex_);
  return abandoned_;
}

bool ShrinkCall::wants(std::uint64_t number) const {
  const MutexLock lock(mutex_);
  return !end_ && wanted_ == number;
}

}  // namespace tutti
