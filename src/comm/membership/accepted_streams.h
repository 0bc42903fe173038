// Where the service thread puts a rank's new TCP streams until its endpoint takes them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "comm/membership/member_table.h"
#include "core/mutex.h"
#include "transport/tcp/tcp_stream_source.h"

namespace tutti {

/// One per rank. Any thread.
class AcceptedStreams {
 public:
  /// Puts the `number`-th stream of this peer and lane there, in place of an older one that was not taken. Calls the
  /// listener.
  void put(Rank peer, Lane lane, std::uint32_t number, TcpStream stream);
  /// Returns false if none is there.
  bool take(Rank peer, Lane lane, TcpStream* stream);
  /// How many streams are there to be taken.
  std::size_t waiting() const;
  /// The number of the last stream that was taken; 0 if none was.
  std::uint32_t taken(Rank peer, Lane lane) const;
  /// The listener is called after each put(), by the thread of put(). Setting it waits for a running call to end.
  void set_listener(std::function<void()> listener) { slot_.set(std::move(listener)); }

 private:
  struct Place {
    std::uint32_t number = 0;
    std::uint32_t taken = 0;
    TcpStream stream;
  };
  mutable Mutex mutex_;
  std::map<std::pair<Rank, Lane>, Place> places_ TUTTI_GUARDED_BY(mutex_);
  ListenerSlot slot_;
};

}  // namespace tutti
