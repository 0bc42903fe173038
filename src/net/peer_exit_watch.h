// Watches the process at the other end of a unix socket: its death counts even when a child of its holds copies of its
// sockets, so that these stay open.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "net/descriptor.h"
#include "net/event_loop.h"
#include "net/socket.h"

namespace tutti {

/// Loop thread only.
class PeerExitWatch final : public EventHandler {
 public:
  /// `on_exit` is called in the loop's thread when the process has ended. nullptr: this one cannot be watched, because
  /// it is at the other end of a TCP connection, or Linux has no pidfds.
  static std::shared_ptr<PeerExitWatch> start(EventLoop& loop, const Socket& connected, std::function<void()> on_exit);
  PeerExitWatch(EventLoop& loop, Descriptor pidfd, std::function<void()> on_exit);
  ~PeerExitWatch() override;
  void stop() { loop_.unwatch(pidfd_.get()); }

  void on_events(std::uint32_t) override { on_exit_(); }

 private:
  EventLoop& loop_;
  Descriptor pidfd_;
  const std::function<void()> on_exit_;
};

}  // namespace tutti
