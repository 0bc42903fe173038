// UnixSocket: messages between processes of one host, each with at most one descriptor. Segments travel this way.
//
// The names are abstract (no file, gone with the socket, visible within one network namespace only), the messages are
// packets (SOCK_SEQPACKET): one send is one receive. Everything is non-blocking and close-on-exec; wait with poll or
// epoll on descriptor().
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/status.h"
#include "core/units.h"
#include "net/descriptor.h"

namespace tutti {

/// How a non-blocking call went. A Status that is not ok means that the socket is of no more use.
enum class SocketState : std::uint8_t {
  kDone,    ///< connected, accepted, sent or received
  kAgain,   ///< would block: nothing happened; wait (accept, receive: readable; send: writable; connect: a while)
  kClosed,  ///< the peer closed the connection, or (connect) nobody listens under this name
};

/// Who is at the other end, as Linux recorded it when the connection was made (SO_PEERCRED): of an accepted socket
/// the process that called connect, of a connecting socket the one that called listen.
struct PeerCredentials {
  pid_t process = -1;
  uid_t user = static_cast<uid_t>(-1);
  gid_t group = static_cast<gid_t>(-1);
};

/// One end of a connection, or a listener. Move-only; closes in the destructor. One thread at a time per direction.
class UnixSocket {
 public:
  static constexpr Bytes kMaxMessage{64 * 1024};
  static constexpr std::size_t kMaxName = 107;  ///< without the leading zero byte

  UnixSocket() = default;
  /// Takes ownership of a connected SOCK_SEQPACKET descriptor (of a socketpair, say).
  explicit UnixSocket(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}

  /// Listens under an abstract name (any bytes, 1 to kMaxName). A name in use is kSystemError.
  static Status listen(std::string_view name, UnixSocket* listener);
  /// Connects. kClosed: no such listener in this network namespace; kAgain: its queue is full, try later.
  static Status connect(std::string_view name, UnixSocket* connection, SocketState* state);
  /// Two connected ends.
  static Status pair(UnixSocket* first, UnixSocket* second);

  /// Accepts one waiting connection. A connection that went away before it was accepted is kAgain.
  Status accept(UnixSocket* connection, SocketState* state);

  /// Sends one message of 1 to kMaxMessage bytes and, if `passed` is not negative, a copy of that descriptor; the
  /// caller keeps its own. Never raises SIGPIPE.
  Status send(std::span<const std::byte> message, int passed, SocketState* state);

  /// Receives one message of at most `buffer.size()` bytes. `passed` owns the descriptor that came with it, or is
  /// invalid; any further ones are closed. A message that does not fit, or a descriptor that could not be taken over
  /// because the process has no free one, is kSystemError.
  Status receive(std::span<std::byte> buffer, std::size_t* size, Descriptor* passed, SocketState* state);

  Status credentials(PeerCredentials* peer) const;

  int descriptor() const { return descriptor_.get(); }
  bool valid() const { return descriptor_.valid(); }
  void close() { descriptor_.reset(); }

 private:
  Descriptor descriptor_;
};

}  // namespace tutti
