// Calls in CUDA graphs run without any call of the rank's, so nobody sees what becomes of them. While a communicator
// has such calls, its graph watch looks after them.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "core/mutex.h"
#include "net/event_loop.h"

namespace tutti {

/// It looks ten times a second, in the service thread, until stop() or until there is nothing more to see.
class GraphWatch : public std::enable_shared_from_this<GraphWatch> {
 public:
  /// look() returns whether to go on. It is not called after stop(), and must not block. `loop` outlives its own
  /// thread's tasks.
  GraphWatch(EventLoop& loop, std::function<bool()> look) : loop_(loop), look_(std::move(look)) {}

  /// Once. Any thread.
  void start();
  /// Waits for a running look. Any thread but the service thread.
  void stop();

 private:
  static constexpr std::chrono::milliseconds kPause{100};

  void plan();
  bool look();

  EventLoop& loop_;
  Mutex mutex_;
  std::function<bool()> look_ TUTTI_GUARDED_BY(mutex_);  // empty after stop()
};

}  // namespace tutti
