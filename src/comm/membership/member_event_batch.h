// A batch of member events that a process forwards. Hundreds of ranks say goodbye within milliseconds of each other, so
// their events travel together; those of a death are sent at once.
#pragma once

#include <chrono>
#include <functional>
#include <utility>
#include <vector>

#include "comm/messages/messages.h"
#include "net/event_loop.h"

namespace tutti {

/// Loop thread only. flush() is the last call before it ends.
class MemberEventBatch {
 public:
  /// Sends the items, which are in the order in which they came.
  using Send = std::function<void(const std::vector<MemberEvent>& items)>;
  MemberEventBatch(EventLoop& loop, Send send) : loop_(loop), send_(std::move(send)) {}
  MemberEventBatch(const MemberEventBatch&) = delete;
  MemberEventBatch& operator=(const MemberEventBatch&) = delete;

  /// Sends these items within the pause, together with those that came before.
  void add(const std::vector<MemberEvent>& items);
  void flush();
  /// Forgets what waits.
  void clear();
  /// Hundreds of ranks on each core send fewer messages, of more events: a rank's turn comes late anyway.
  void set_pace(int ranks_per_core);

 private:
  EventLoop& loop_;
  Send send_;
  std::vector<MemberEvent> waiting_;
  EventLoop::TimerId timer_ = 0;
  std::chrono::microseconds pause_{5000};
};

}  // namespace tutti
