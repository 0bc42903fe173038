// TlsSession: TLS 1.3 with a pre-shared key on a non-blocking socket.
//
// No certificates, no tickets, no early data, no version or cipher to choose: AES-128-GCM under keys of a fresh X25519
// exchange (psk_dhe_ke), so that who learns the secret later cannot read what was recorded. docs/design/security.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/status.h"
#include "net/unix_socket.h"

namespace tutti {

/// The pre-shared key: derived from a secret for this use alone.
using TlsKey = std::array<std::byte, 32>;
/// The key that a client names in public; false: not served here. Called within receive(), send() or handshake().
using TlsLookup = std::function<bool(std::string_view identity, TlsKey* key)>;

/// One connection's state. An interface, so that OpenSSL's headers stay in tls_session.cc. Borrows the descriptor,
/// which outlives it. One thread at a time. Never raises SIGPIPE.
class TlsSession {
 public:
  /// Sends under one key, each of at most four records: RFC 8446, section 5.5, allows 2^24.5 records.
  static constexpr std::uint64_t kSendsPerKey = std::uint64_t{1} << 21;

  /// `identity`: 1 to 128 characters.
  static Status client(int descriptor, const std::string& identity, const TlsKey& key,
                       std::unique_ptr<TlsSession>* session, std::uint64_t sends_per_key = kSendsPerKey);
  static Status server(int descriptor, TlsLookup lookup, std::unique_ptr<TlsSession>* session,
                       std::uint64_t sends_per_key = kSendsPerKey);
  virtual ~TlsSession() = default;

  /// Goes on with the handshake; send() and receive() do, too, and say kAgain until it is done. kDone: both ends have
  /// proved that they know the key. A peer that sends more than a handshake needs is refused.
  virtual Status handshake(SocketState* state) = 0;
  virtual bool established() const = 0;

  /// Takes over a beginning of `data`; kAgain: none of it. What was taken over is encrypted and may be held for a
  /// while, see wants_output(): at most 64 KiB.
  virtual Status send(std::span<const std::byte> data, std::size_t* sent, SocketState* state) = 0;
  /// Receives what there is; kAgain: nothing yet. Bytes may wait inside the session while the socket itself is not
  /// readable: read until kAgain before sleeping.
  virtual Status receive(std::span<std::byte> buffer, std::size_t* got, SocketState* state) = 0;

  /// Hands what is held to the socket, as all functions above do. kDone: nothing is held any more.
  virtual Status flush(SocketState* state) = 0;
  /// Whether it holds bytes that the socket did not take: then call again when the socket is writable. When it holds
  /// none, a kAgain ends when the socket is readable.
  virtual bool wants_output() const = 0;
};

}  // namespace tutti
