// The link service sends again what was lost with a connection, while its rank makes no call on the communicator: the
// peer that needs it may be waited for elsewhere.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>

#include "comm/call_driver.h"
#include "core/clock.h"
#include "core/mutex.h"
#include "net/event_loop.h"

namespace tutti {

/// One per communicator with connections. It runs in the service thread. When a connection has come, it looks at the
/// links again and again. It stops after two looks in a row in which no operation used the links and the peers' systems
/// had all that was sent.
class LinkService : public std::enable_shared_from_this<LinkService> {
 public:
  /// `driver` outlives the call of stop(), and `loop` all calls of arrived(). If many ranks
  /// share a core, it looks less often.
  LinkService(EventLoop& loop, CallDriver& driver, int ranks_per_core)
      : loop_(loop), first_pause_(std::max(kShortestPause, ranks_per_core * kPauseEach)), driver_(&driver) {}

  /// A connection has come. Loop thread only.
  void arrived();
  /// Ends the service. Waits for a running look. Any other thread.
  void stop();

 private:
  static constexpr std::chrono::microseconds kShortestPause{1'000};
  static constexpr std::chrono::microseconds kPauseEach{200};  // times the ranks that share a core
  static constexpr std::chrono::microseconds kLongestPause{64'000};
  static constexpr int kLooksAtTheEnd = 2;  // a first frame that the socket did not take is written by the second one

  void plan();
  void look();

  // Loop thread only.
  EventLoop& loop_;
  EventLoop::TimerId timer_ = 0;
  Clock::time_point due_{};
  const std::chrono::microseconds first_pause_;
  std::chrono::microseconds pause_ = first_pause_;
  int looks_left_ = 0;

  Mutex mutex_;
  CallDriver* driver_ TUTTI_GUARDED_BY(mutex_);  // nullptr after stop()
};

}  // namespace tutti
