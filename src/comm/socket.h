// Socket: one connected socket of either kind, unix or TCP, behind one face.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>

#include "comm/address.h"
#include "comm/crypto.h"
#include "core/status.h"
#include "transport/descriptor.h"
#include "transport/unix_socket.h"

namespace tutti {

/// Move-only; closed by the destructor, and in forked children. Non-blocking. A stream of bytes: the packets of the
/// unix socket carry no meaning, except that a descriptor arrives with the first byte it was sent with.
class Socket {
 public:
  Socket() = default;
  explicit Socket(UnixSocket socket);
  explicit Socket(Descriptor tcp);
  Socket(Socket&& other) noexcept = default;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }

  /// Starts to connect; the socket becomes writable when it is done or has failed.
  static Status connect(const IpAddress& address, std::uint16_t port, Socket* connected);
  /// `state` as in UnixSocket::connect.
  static Status connect(const std::string& socket_name, Socket* connected, SocketState* state);

  /// Sends a beginning of `data`, with `passed` (unix only; -1: none) on its first byte.
  Status send(ByteView data, int passed, std::size_t* sent, SocketState* state);
  Status receive(std::span<std::byte> buffer, std::size_t* got, Descriptor* passed, SocketState* state);

  /// Unix: refuses users other than this process's and root; gives the other process's id, 0 if it is not visible from
  /// here. TCP: 0.
  Status check_peer(pid_t* process) const;
  /// A pidfd of the other process (unix, and the kernel has them); invalid otherwise.
  Descriptor peer_pidfd() const;

  bool is_unix() const { return unix_.valid(); }
  bool valid() const { return descriptor() >= 0; }
  int descriptor() const { return unix_.valid() ? unix_.descriptor() : tcp_.get(); }
  void close();

 private:
  UnixSocket unix_;
  Descriptor tcp_;
};

}  // namespace tutti
