#include "comm/graph_watch.h"

namespace tutti {

void GraphWatch::start() {
  loop_.post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->plan();
  });
}

void GraphWatch::plan() {
  loop_.after(kPause, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self != nullptr && self->look()) self->plan();
  });
}

bool GraphWatch::look() {
  const MutexLock lock(mutex_);
  return look_ != nullptr && look_();
}

void GraphWatch::stop() {
  const MutexLock lock(mutex_);
  look_ = nullptr;
}

}  // namespace tutti
