#include "comm/link_service.h"

#include <algorithm>

namespace tutti {

void LinkService::arrived() {
  pause_ = kFirstPause;
  if (!is_planned_) look();
}

void LinkService::look() {
  {
    const MutexLock lock(mutex_);
    if (driver_ == nullptr || driver_->serve_unused_links()) return;
  }
  loop_.after(pause_, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->is_planned_ = false;
    self->look();
  });
  is_planned_ = true;
  pause_ = std::min(2 * pause_, kLongestPause);
}

void LinkService::stop() {
  const MutexLock lock(mutex_);
  driver_ = nullptr;
}

}  // namespace tutti
