#include "device/quiet_moment.h"

#include <utility>

namespace tutti {

// Never destroyed, because threads of the library may launch until the process ends.
HalfLaunchedCalls& HalfLaunchedCalls::get() {
  static HalfLaunchedCalls* const calls = new HalfLaunchedCalls;
  return *calls;
}

void HalfLaunchedCalls::begin() {
  MutexLock lock(mutex_);
  while (moments_ != 0) changed_.wait(lock);
  ++calls_;
}

void HalfLaunchedCalls::begin_at_once() {
  const MutexLock lock(mutex_);
  ++calls_;
}

void HalfLaunchedCalls::end(std::size_t calls) {
  const MutexLock lock(mutex_);
  calls_ -= calls;
  ended_ += calls;
  if (calls_ == 0) changed_.notify_all();
}

QuietMoment::QuietMoment(Deadline deadline) {
  MutexLock lock(all_.mutex_);
  while (all_.calls_ != 0 && all_.stuck_at_ != all_.ended_ && !deadline.passed())
    (void)all_.changed_.wait_until(lock, deadline.at());
  is_quiet_ = all_.calls_ == 0;
  if (is_quiet_) ++all_.moments_;
  if (!is_quiet_) all_.stuck_at_ = all_.ended_;
}

QuietMoment::QuietMoment() {
  const MutexLock lock(all_.mutex_);
  is_quiet_ = all_.calls_ == 0;
  if (is_quiet_) ++all_.moments_;
}

QuietMoment::~QuietMoment() {
  if (!is_quiet_) return;
  const MutexLock lock(all_.mutex_);
  if (--all_.moments_ == 0) all_.changed_.notify_all();
}

// Never destroyed: the process's end frees what is in it.
QuietFrees& QuietFrees::get() {
  static QuietFrees* const all = new QuietFrees;
  return *all;
}

void QuietFrees::add(std::function<void()> free) {
  {
    const MutexLock lock(mutex_);
    frees_.push_back(std::move(free));
  }
  sweep();
}

void QuietFrees::sweep() {
  const QuietMoment now;
  if (!now.is_quiet()) return;
  std::vector<std::function<void()>> frees;
  {
    const MutexLock lock(mutex_);
    frees.swap(frees_);
  }
  for (const auto& free : frees) free();
}

}  // namespace tutti
