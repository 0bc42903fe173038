// Says which thread uses the links of a communicator: the one that runs an operation, or between two operations the
// service thread, which sends again what was lost with a connection.
#pragma once

#include <atomic>
#include <chrono>

#include "core/clock.h"
#include "core/wait_until.h"

namespace tutti {

/// One per communicator. For the thread whose turn it is, unless a function says otherwise.
class LinkUse {
 public:
  /// From now on the service thread uses the links, too; until then begin() and end() cost a comparison. Called once,
  /// before the first operation.
  void share() { is_shared_ = true; }
  /// Waits until the service thread does not use the links. That takes as long as reading and writing what the sockets
  /// hold and take; nothing there blocks. Does nothing if the thread has begun already.
  void begin() {
    if (!is_shared_ || is_mine_) return;
    if (!try_begin()) [[unlikely]]
      (void)wait_until([this] { return try_begin(); }, Deadline::never(), WaitPace::yields(kYields, kNap));
    is_mine_ = true;
  }
  void end() {
    if (!is_mine_) return;
    is_mine_ = false;
    is_used_.store(false, std::memory_order_release);
  }

  /// The service thread's begin(). It does not wait, and returns false if an operation uses the links.
  bool try_begin() { return !is_used_.exchange(true, std::memory_order_acquire); }
  /// The service thread's end().
  void give_back() { is_used_.store(false, std::memory_order_release); }

 private:
  static constexpr std::chrono::milliseconds kYields{1};
  static constexpr std::chrono::microseconds kNap{50};

  bool is_shared_ = false;
  bool is_mine_ = false;              // ordered between threads by the turns
  std::atomic<bool> is_used_{false};  // release in end() and give_back(), pairs with the acquire in try_begin()
};

}  // namespace tutti
