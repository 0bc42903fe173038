// Socket: one connected socket of either kind, unix or TCP, with one interface.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "core/status.h"
#include "net/address.h"
#include "net/crypto.h"
#include "net/descriptor.h"
#include "net/tls_session.h"
#include "net/unix_socket.h"

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

  /// Starts to connect; the socket becomes writable when it is done or has failed. `scope`: the interface of a
  /// link-local IPv6 address.
  static Status connect(const IpAddress& address, std::uint16_t port, std::uint32_t scope, Socket* connected);
  /// `state` as in UnixSocket::connect.
  static Status connect(const std::string& socket_name, Socket* connected, SocketState* state);

  /// Sends a beginning of `data`, with `passed` (unix only; -1: none) on its first byte.
  Status send(ByteView data, int passed, std::size_t* sent, SocketState* state);
  Status receive(std::span<std::byte> buffer, std::size_t* got, Descriptor* passed, SocketState* state);

  /// Unix: refuses users other than this process's and root; gives the other process's id, 0 if it is not visible from
  /// here. TCP: 0.
  Status check_peer(pid_t* process) const;
  /// A pidfd of the other process (unix, and Linux has them); invalid otherwise.
  Descriptor peer_pidfd() const;

  /// TCP: a peer that answers nothing for so long (at least 1 s) is gone. Unix: does nothing. `output`: also while
  /// something is on its way; but then a peer that reads nothing for so long counts as gone, too, whatever its system
  /// answers (Linux 5.11 and later).
  void set_timeout(double seconds, bool output = true);
  /// TCP: the other end's address, and its interface if it is a link-local one. False: not connected (yet, or any
  /// more). Unix: false.
  bool peer(IpAddress* address, std::uint32_t* scope) const;
  /// TCP: the address at this end. False: not connected. Unix: false.
  bool own(IpAddress* address, std::uint16_t* port) const;
  /// TCP: all_acknowledged(). Unix: true.
  bool delivered() const;
  /// TCP: acknowledges at once what has come. Unix: does nothing.
  void acknowledge() const;
  /// TCP: gives the descriptor away; `guard` goes on closing it in forked children until it is let go.
  Descriptor release(std::shared_ptr<const void>* guard);

  /// TCP: the first byte that has come, which stays where it is. kAgain: none has.
  Status peek(std::byte* first, SocketState* state) const;
  /// TCP: all that follows goes through the session, which was made for this descriptor. It shakes hands within send()
  /// and receive(), which are then for one thread at a time.
  void encrypt(std::unique_ptr<TlsSession> session) { tls_ = std::move(session); }
  bool encrypted() const { return tls_ != nullptr; }
  /// Encrypted: see TlsSession.
  bool wants_output() const { return tls_ && tls_->wants_output(); }
  Status flush(SocketState* state) { return tls_->flush(state); }
  /// Gives the session away, to go with the descriptor.
  std::unique_ptr<TlsSession> release_tls() { return std::move(tls_); }

  bool is_unix() const { return unix_.valid(); }
  bool valid() const { return descriptor() >= 0; }
  int descriptor() const { return unix_.valid() ? unix_.descriptor() : tcp_.get(); }
  void close();

 private:
  UnixSocket unix_;
  Descriptor tcp_;
  std::unique_ptr<TlsSession> tls_;  // borrows tcp_
};

/// TCP: chooses the congestion control of a socket that is not connected yet, or that is to listen: what it accepts has
/// the same. The system's default may be one that paces what it sends, as BBR does. A connection that began with it is
/// paced for good, whatever is chosen later, and is slow after each pause of the program (docs/design/tcp.md).
void choose_congestion(int descriptor);
/// TCP: whether the other end's system has acknowledged all that was sent, as far as this one tells.
bool all_acknowledged(int descriptor);
/// TCP: acknowledges at once what has come. The system else waits for up to 40 ms for something to go back with it.
void acknowledge(int descriptor);
/// Whether a connection ended because nobody listens at the address.
bool is_refusal(const Status& why);
/// Whether this process or its host has no descriptors or memory left for it.
bool is_lack(const Status& why);
/// Whether a port cannot be listened on because somebody has it.
bool is_in_use(const Status& why);
/// Whether it ended because the other host answered nothing for as long as set_timeout() said.
bool is_unreachable(const Status& why);

}  // namespace tutti
