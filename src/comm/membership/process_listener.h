// A process listener hears what happens in a process membership after the join. It is an interface, because its
// implementation, which lets ranks go on after a failure, includes the membership.
#pragma once

#include <cstddef>

#include "comm/messages/messages.h"
#include "core/status.h"
#include "core/units.h"
#include "net/codec.h"

namespace tutti {

/// Loop thread only. The membership owns it, and outlives it.
class ProcessListener {
 public:
  virtual ~ProcessListener() = default;
  /// Takes a message that only the listener understands. An error closes the connection that it came on.
  virtual Status on_message(std::size_t from, MessageType type, ByteView payload) = 0;
  /// There is a connection to the process at this place. What was sent to it before may be lost.
  virtual void on_connected(std::size_t place) = 0;
  /// Ranks of other processes have ended.
  virtual void on_ends() = 0;
  /// A rank of this process has left.
  virtual void on_leave(Rank rank) = 0;
  /// The service thread has left something undone, perhaps a step of the listener's.
  virtual void on_failure(const Status& why) = 0;
};

}  // namespace tutti
