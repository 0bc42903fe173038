// Member events on their way: what a process has heard of how ranks end, which it forwards. Hundreds of ranks say
// goodbye within milliseconds of each other: their events travel together, those of a death at once.
#pragma once

#include <chrono>
#include <functional>
#include <utility>
#include <vector>

#include "comm/membership/messages.h"
#include "net/event_loop.h"

namespace tutti {

/// Loop thread only. flush() is the last call before it ends.
class MemberEventBatch {
 public:
  /// Hands the items over in the order in which they came.
  using Send = std::function<void(const std::vector<MemberEvent>& items)>;
  MemberEventBatch(EventLoop& loop, Send send) : loop_(loop), send_(std::move(send)) {}
  MemberEventBatch(const MemberEventBatch&) = delete;
  MemberEventBatch& operator=(const MemberEventBatch&) = delete;

  /// Sends them within kPause, with what came before.
  void add(const std::vector<MemberEvent>& items);
  void flush();

  static constexpr std::chrono::milliseconds kPause{5};

 private:
  EventLoop& loop_;
  Send send_;
  std::vector<MemberEvent> waiting_;
  EventLoop::TimerId timer_ = 0;
};

}  // namespace tutti
