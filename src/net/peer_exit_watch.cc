#include "net/peer_exit_watch.h"

#include <sys/epoll.h>

#include <utility>

#include "net/fork_guard.h"

namespace tutti {

PeerExitWatch::PeerExitWatch(EventLoop& loop, Descriptor pidfd, std::function<void()> on_exit)
    : loop_(loop), pidfd_(std::move(pidfd)), on_exit_(std::move(on_exit)) {
  guard_descriptor(pidfd_.get());
}

PeerExitWatch::~PeerExitWatch() { unguard_descriptor(pidfd_.get()); }

std::shared_ptr<PeerExitWatch> PeerExitWatch::start(EventLoop& loop, const Socket& connected,
                                                    std::function<void()> on_exit) {
  Descriptor pidfd = connected.peer_pidfd();
  if (!pidfd.valid()) return nullptr;
  auto made = std::make_shared<PeerExitWatch>(loop, std::move(pidfd), std::move(on_exit));
  return loop.watch(made->pidfd_.get(), EPOLLIN, made).ok() ? made : nullptr;
}

}  // namespace tutti
