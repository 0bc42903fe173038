// How far apart the first two cores are right now, as ranks that are bound to them would find.
#pragma once

#include <sched.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "race/state.h"

namespace tutti::perf {

/// Binds the calling thread to the first core that this process may use, until the end, and a thread of its own to the
/// second.
class CorePing {
 public:
  CorePing();
  ~CorePing();
  CorePing(const CorePing&) = delete;
  CorePing& operator=(const CorePing&) = delete;

  /// Nanoseconds one way; 0 if there is only one core. For the thread that made this.
  double one_way_ns();

 private:
  void answer();

  cpu_set_t usable_;
  race::PingLines lines_{};
  std::uint64_t sent_ = 0;
  std::mutex mutex_;  ///< guards the two below
  int games_ = 0;
  bool ended_ = false;
  std::condition_variable begun_;
  std::thread other_;
};

}  // namespace tutti::perf
