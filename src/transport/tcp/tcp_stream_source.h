// How a tcp endpoint gets its connections. The communicator finds the peer, connects to it, authenticates it and, after
// a loss, connects again; the endpoint only moves bytes. The other end of a stream has proved that it is this peer, for
// this lane of this communicator.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "core/units.h"
#include "net/tcp_stream.h"

namespace tutti {

/// One per rank and communicator. Threads: want() and take() by the thread that uses the endpoint, one at a time;
/// nothing blocks.
class TcpStreamSource {
 public:
  virtual ~TcpStreamSource() = default;

  /// Asks for a stream to `peer` for `lane`, also in place of one that broke. It is always the same one of the two ends
  /// that dials, whichever asks. Asking again while a stream is on its way does nothing. If the peer's host cannot be
  /// reached for TUTTI_RECONNECT seconds, the communicator fails with a cause that names the peer and the addresses
  /// tried; a peer whose host takes connections is waited for.
  virtual void want(Rank peer, Lane lane) = 0;
  /// Takes the newest stream of a peer and lane that was not taken yet; returns false if there is none. A stream may
  /// come without having been asked for (the peer lost the old one, or was first to use the lane), and then replaces
  /// the old one.
  virtual bool take(Rank peer, Lane lane, TcpStream* stream) = 0;
  /// Whether the peer has left or is dead, so that no stream to it will come. May lock; any thread.
  virtual bool gone(Rank /*peer*/) const { return false; }
  /// Grows with every stream that arrives, so that a poll costs one load. Acquire; pairs with the release at arrival.
  std::uint64_t arrivals() const { return arrivals_.load(std::memory_order_acquire); }
  /// Called by the service thread after each arrival; must not block. An empty function unsets it and waits for a
  /// running call.
  virtual void set_listener(std::function<void()> listener) = 0;

 protected:
  std::atomic<std::uint64_t> arrivals_{0};
};

}  // namespace tutti
