// A root that knows the secret and says what it likes: it serves a unique id by hand.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "comm/address.h"
#include "comm/handshake.h"
#include "comm/places.h"
#include "comm/unique_id.h"
#include "comm/wire.h"
#include "support/patience.h"
#include "transport/descriptor.h"

namespace tutti::test {

/// One rank's connection to a false root, by TCP on 127.0.0.1. One thread.
class FalseRoot {
 public:
  FalseRoot() {
    id_.port = free_port();
    id_.addresses.emplace_back();
    id_.addresses[0].bytes = {std::byte{127}, std::byte{0}, std::byte{0}, std::byte{1}};
    EXPECT_TRUE(random_bytes(id_.secret).ok());
    EXPECT_TRUE(random_bytes(id_.nonce).ok());
    listener_ = listen_at(id_.port);
  }
  IdBytes id() const { return id_.encode(); }

  /// Takes a connection through the handshake; false: it did not come, or does not know the secret.
  bool accept() {
    pollfd wanted{listener_.get(), POLLIN, 0};
    if (restarted([&] { return ::poll(&wanted, 1, 100'000); }) != 1) return false;
    socket_ = Descriptor(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const timeval limit{100, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    Handshake server =
        Handshake::server([this](Role, const KeyId&, Key* secret) { return *secret = id_.secret, true; });
    while (server.wants() != 0) {
      std::vector<std::byte> answer;
      if (!server.consume(receive(server.wants()), &answer).ok()) return false;
      send(answer);
    }
    key_ = server.send_key();
    return true;
  }
  /// The next message; of nothing if none comes.
  std::vector<std::byte> hear(MessageType* type) {
    const std::vector<std::byte> header = receive(kHeader);
    if (header.size() < kHeader) return {};
    WireReader in(header);
    const std::uint32_t size = in.u32();
    *type = static_cast<MessageType>(in.u16());
    std::vector<std::byte> rest = receive(size + kMac);
    rest.resize(std::min<std::size_t>(rest.size(), size));
    return rest;
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
    frame.bytes(ByteView(mac).first(kMac));
    send(frame.data());
  }

 private:
  static constexpr std::size_t kHeader = 8;
  static constexpr std::size_t kMac = 16;
  void send(ByteView bytes) const { ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  std::vector<std::byte> receive(std::size_t size) const {
    std::vector<std::byte> got(size);
    std::size_t came = 0;
    for (ssize_t more = 1; came < size && more > 0; came += static_cast<std::size_t>(std::max<ssize_t>(more, 0)))
      more = restarted([&] { return ::recv(socket_.get(), got.data() + came, size - came, 0); });
    got.resize(came);
    return got;
  }

  UniqueId id_;
  Descriptor listener_;
  Descriptor socket_;
  Key key_{};
  std::uint64_t said_ = 0;
};

}  // namespace tutti::test
