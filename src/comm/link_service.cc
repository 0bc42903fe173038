#include "comm/link_service.h"

#include <utility>

namespace tutti {

void LinkService::arrived() {
  looks_left_ = kLooksAtTheEnd;
  pause_ = first_pause_;
  if (timer_ != 0 && due_ <= Clock::now() + first_pause_) return;  // many connections may come at once
  loop_.cancel(std::exchange(timer_, 0));
  plan();
}

void LinkService::plan() {
  due_ = Clock::now() + pause_;
  timer_ = loop_.after(pause_, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->timer_ = 0;
    self->look();
  });
  pause_ = std::max(first_pause_, std::min(2 * pause_, kLongestPause));
}

void LinkService::look() {
  bool is_done = false;
  {
    const MutexLock lock(mutex_);
    if (driver_ == nullptr) return;
    is_done = driver_->serve_unused_links();
  }
  looks_left_ = is_done ? looks_left_ - 1 : kLooksAtTheEnd;
  if (looks_left_ > 0) plan();
}

void LinkService::stop() {
  const MutexLock lock(mutex_);
  driver_ = nullptr;
}

}  // namespace tutti
