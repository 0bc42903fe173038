// A connected TCP socket that has done its handshake, as it is handed to who moves bytes over it.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "net/descriptor.h"
#include "net/tls_session.h"

namespace tutti {

/// Its other end has proved who it is.
struct TcpStream {
  Descriptor socket;                  ///< non-blocking, without Nagle's delay, its congestion control chosen
  std::shared_ptr<const void> guard;  ///< closes the socket in forked children; to be let go before the socket closes
  std::unique_ptr<TlsSession> tls;    ///< handshake done; nullptr: plain bytes
  std::vector<std::byte> leftover;    ///< what was received after the handshake: it comes before what the socket gives
};

}  // namespace tutti
