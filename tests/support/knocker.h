// Connects to a hub as whoever knows the secret could, and says what it likes.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <vector>

#include "net/address.h"
#include "net/handshake.h"
#include "support/loopback.h"
#include "support/spoken.h"

namespace tutti::test {

/// A TCP connection to a hub of this host, from 127.0.0.`from` to 127.0.0.`to`.
inline Descriptor knock(std::uint16_t port, unsigned from = 1, unsigned to = 1) {
  const SocketAddress at = socket_address(loopback(to), port);
  const SocketAddress own = socket_address(loopback(from), 0);
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&own.data), own.size), 0) << errno_text();
  const timeval limit{100, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&at.data), at.size), 0) << errno_text();
  return socket;
}

/// As far as it can be seen without waiting, whatever is still unread.
inline bool is_closed_now(const Descriptor& socket) {
  pollfd end{socket.get(), POLLRDHUP, 0};
  return ::poll(&end, 1, 0) == 1 && end.revents != 0;
}

inline bool is_closed_by_the_other_end(const Descriptor& socket) {
  char byte = 0;
  return restarted([&] { return ::recv(socket.get(), &byte, 1, 0); }) <= 0 && errno != EAGAIN;
}

/// A client of a hub's port that speaks the protocol by hand.
class Knocker : public Spoken {
 public:
  explicit Knocker(std::uint16_t port, unsigned from = 1) { open(knock(port, from)); }
  bool is_closed() const { return receive(1).empty(); }
  bool hears_nothing_for(std::chrono::milliseconds time) const {
    pollfd wanted{descriptor(), POLLIN, 0};
    return restarted([&] { return ::poll(&wanted, 1, static_cast<int>(time.count())); }) == 0;
  }

  /// The handshake, with `before_proof` called between the hub's challenge and the proof. False if it is turned away.
  bool pass(
      Role role, const KeyId& id, const Key& key, const std::function<void()>& before_proof = [] {}) {
    Handshake client = Handshake::client(role, id, key);
    std::vector<std::byte> out;
    EXPECT_TRUE(client.start(&out).ok());
    send(out);
    const std::vector<std::byte> challenge = receive(Handshake::kChallengeSize);
    out.clear();
    if (challenge.size() != Handshake::kChallengeSize || !client.consume(challenge, &out).ok()) return false;
    before_proof();
    send(out);
    use_key(client.send_key());
    return true;
  }
};

}  // namespace tutti::test
