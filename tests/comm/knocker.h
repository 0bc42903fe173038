// Connects to a hub as whoever knows the secret could, and says what it likes.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "comm/address.h"
#include "comm/handshake.h"
#include "comm/wire.h"
#include "support/patience.h"
#include "transport/descriptor.h"

namespace tutti::test {

/// A client of a hub's port that speaks the protocol by hand.
class Knocker {
 public:
  explicit Knocker(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    IpAddress loopback;
    loopback.bytes = {std::byte{127}, std::byte{0}, std::byte{0}, std::byte{1}};
    const SocketAddress at = socket_address(loopback, port);
    const timeval limit{100, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&at.data), at.size), 0) << errno_text();
  }
  void send(ByteView bytes) { ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  std::vector<std::byte> receive(std::size_t size) {
    std::vector<std::byte> got(size);
    std::size_t came = 0;
    for (ssize_t more = 1; came < size && more > 0; came += static_cast<std::size_t>(std::max<ssize_t>(more, 0)))
      more = restarted([&] { return ::recv(socket_.get(), got.data() + came, size - came, 0); });
    got.resize(came);
    return got;
  }
  bool is_closed() { return receive(1).empty(); }
  bool hears_nothing_for(std::chrono::milliseconds time) const {
    pollfd wanted{socket_.get(), POLLIN, 0};
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
    key_ = client.send_key();
    return true;
  }
  void say(MessageType type, ByteView payload) {
    WireWriter frame;
    frame.u32(static_cast<std::uint32_t>(payload.size()));
    frame.u16(static_cast<std::uint16_t>(type));
    frame.u16(0);
    frame.bytes(payload);
    WireWriter counter;
    counter.u64(said_++);
    Key mac;
    ASSERT_TRUE(hmac_sha256(key_, {counter.data(), frame.data()}, &mac).ok());
    frame.bytes(ByteView(mac).first(16));
    last_ = frame.data();
    send(last_);
  }
  const std::vector<std::byte>& last() const { return last_; }

 private:
  Descriptor socket_;
  Key key_{};
  std::uint64_t said_ = 0;
  std::vector<std::byte> last_;
};

}  // namespace tutti::test
