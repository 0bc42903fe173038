// The stream shelf: where the service thread puts a rank's new TCP streams until its endpoint takes them.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "comm/roster.h"
#include "transport/tcp_wiring.h"

namespace tutti {

/// One a rank. Any thread.
class StreamShelf {
 public:
  /// In place of an older stream of this peer and lane that was not taken. Calls the listener.
  void put(Rank peer, Lane lane, TcpStream stream);
  /// False: none is there.
  bool take(Rank peer, Lane lane, TcpStream* stream);
  /// Called after each put(), by its thread; setting it waits for a running call.
  void set_listener(std::function<void()> listener) { slot_.set(std::move(listener)); }

 private:
  std::mutex mutex_;  // guards the streams
  std::map<std::pair<Rank, Lane>, TcpStream> streams_;
  ListenerSlot slot_;
};

}  // namespace tutti
