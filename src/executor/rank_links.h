// What code that runs nothing over a rank's links may ask of them: peers' boards, what is still on its way, and
// wake-ups when something comes.
#pragma once

#include <cstdint>
#include <functional>

#include "core/call_board.h"
#include "core/units.h"
#include "transport/transport.h"

namespace tutti {

/// One rank's links in one communicator, of whatever transport. The thread that drives the rank's executor calls these;
/// wake() and a peer's board are for any thread. This is an interface because the callers are compiled once and
/// EndpointLinks once for each transport.
class RankLinks {
 public:
  virtual ~RankLinks() = default;

  virtual Capabilities capabilities() const = 0;
  /// The rank's own board.
  virtual CallBoard& board() = 0;
  /// A peer's board, or nullptr if it cannot be read from here.
  virtual const CallBoard* board(Rank peer) const = 0;

  /// Moves what waits on the links while the rank waits for something else than an operation.
  virtual void make_progress() = 0;
  /// Whether all that was sent is in the hands of the readers or of their operating systems. Each call goes on
  /// delivering.
  virtual bool delivered() = 0;
  /// Like delivered(), but asks only about what sends have sent to readers of which `receives` is true, because whoever
  /// has finished a collective has received all of it. If it returns false, `late` becomes a reader that lacks
  /// something.
  virtual bool transfers_delivered(Rank* late, const std::function<bool(Rank reader)>& receives) = 0;
  /// Whether what a far `peer` sent may still come over a connection, even if it is dead.
  virtual bool hears(Rank peer) = 0;
  /// Grows with every byte that connections move.
  virtual std::uint64_t bytes_moved() const = 0;

  /// These are an Endpoint's. The sleep itself is Executor::sleep(), which knows what is waited for.
  virtual void announce_sleep() = 0;
  virtual void cancel_sleep() = 0;
  virtual void wake() = 0;
};

}  // namespace tutti
