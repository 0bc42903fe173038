// TlsSession: TLS 1.3 with a pre-shared key on a non-blocking socket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "core/status.h"
#include "transport/unix_socket.h"

namespace tutti {

/// One connection's state. Borrows the descriptor, which outlives it. One thread at a time.
class TlsSession {
 public:
  virtual ~TlsSession() = default;
  /// Sends a beginning of `data`. kAgain: nothing could be sent; call again with the same bytes, grown at most.
  virtual Status send(std::span<const std::byte> data, std::size_t* sent, SocketState* state) = 0;
  /// Receives what there is; kAgain: nothing yet. Bytes may wait inside the session while the socket itself is not
  /// readable: read until kAgain before sleeping.
  virtual Status receive(std::span<std::byte> buffer, std::size_t* got, SocketState* state) = 0;
};

}  // namespace tutti
