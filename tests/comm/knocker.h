// Connects to a hub as whoever knows the secret could, and says what it likes.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <vector>

#include "comm/spoken.h"
#include "net/address.h"
#include "net/handshake.h"

namespace tutti::test {

/// A client of a hub's port that speaks the protocol by hand.
class Knocker : public Spoken {
 public:
  explicit Knocker(std::uint16_t port) {
    open(Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)));
    IpAddress loopback;
    loopback.bytes = {std::byte{127}, std::byte{0}, std::byte{0}, std::byte{1}};
    const SocketAddress at = socket_address(loopback, port);
    EXPECT_EQ(::connect(descriptor(), reinterpret_cast<const sockaddr*>(&at.data), at.size), 0) << errno_text();
  }
  bool is_closed() const { return receive(1).empty(); }
  bool hears_nothing_for(std::chrono::milliseconds time) const {
    pollfd wanted{descriptor(), POLLIN, 0};
    return restarted([&] { return ::poll(&wanted, 1, static_cast<int>(time.count())); }) == 0;
  }

  /// The handshake; false: turned away.
  bool pass(Role role, const KeyId& id, const Key& key) {
    Handshake client = Handshake::client(role, id, key);
    std::vector<std::byte> out;
    EXPECT_TRUE(client.start(&out).ok());
    send(out);
    const std::vector<std::byte> challenge = receive(Handshake::kChallengeSize);
    out.clear();
    if (challenge.size() != Handshake::kChallengeSize || !client.consume(challenge, &out).ok()) return false;
    send(out);
    use_key(client.send_key());
    return true;
  }
};

}  // namespace tutti::test
