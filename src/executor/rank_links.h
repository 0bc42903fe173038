// A rank's links to those who run nothing over them: whose boards can be read, what is still on its way, and who is
// woken when something comes.
#pragma once

#include <cstdint>

#include "core/call_board.h"
#include "core/units.h"
#include "transport/transport.h"

namespace tutti {

/// One rank's links in one communicator, of whatever transport. By the thread that drives the rank's executor; wake()
/// and a peer's board are for any thread. An interface, because those who ask are compiled once and EndpointLinks once
/// per transport.
class RankLinks {
 public:
  virtual ~RankLinks() = default;

  virtual Capabilities capabilities() const = 0;
  /// The rank's own.
  virtual CallBoard& board() = 0;
  /// A peer's, or nullptr where it cannot be read.
  virtual const CallBoard* board(Rank peer) const = 0;

  /// Moves what waits in the links of a rank that waits for something else than an operation.
  virtual void make_progress() = 0;
  /// Whether all that was sent is in its readers' hands or their operating systems', so that the links may close; else
  /// `late` is one of those it is not. Goes on delivering.
  virtual bool delivered(Rank* late) = 0;
  /// Whether what a far `peer` sent may still come over a connection, even if it is dead.
  virtual bool hears(Rank peer) = 0;
  /// Grows with every byte of a connection.
  virtual std::uint64_t bytes_moved() const = 0;

  /// As those of an Endpoint; the sleep itself is Executor::sleep(), which knows what is waited for.
  virtual void announce_sleep() = 0;
  virtual void cancel_sleep() = 0;
  virtual void wake() = 0;
};

}  // namespace tutti
