// The end of a connection that speaks the hubs' protocol by hand.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "comm/messages/messages.h"
#include "net/crypto.h"
#include "net/descriptor.h"
#include "support/frames.h"
#include "support/patience.h"

namespace tutti::test {

/// Sends and receives bytes, and, once it has the key of a handshake, whole messages. One thread.
class Spoken {
 public:
  /// Waits for at most 100 s.
  void open(Descriptor connected) {
    socket_ = std::move(connected);
    const timeval limit{100, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  }
  void hang_up() { socket_.reset(); }
  int descriptor() const { return socket_.get(); }
  void send(ByteView bytes) const { ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  std::vector<std::byte> receive(std::size_t size) const {
    std::vector<std::byte> got(size);
    std::size_t came = 0;
    for (ssize_t more = 1; came < size && more > 0; came += static_cast<std::size_t>(std::max<ssize_t>(more, 0)))
      more = restarted([&] { return ::recv(socket_.get(), got.data() + came, size - came, 0); });
    got.resize(came);
    return got;
  }

  void use_key(const Key& key) { key_ = key; }
  void say(MessageType type, ByteView payload) {
    last_ = frame_of(type, payload);
    ASSERT_TRUE(sign(key_, said_++, &last_).ok());
    send(last_);
  }
  /// What say() sent last.
  const std::vector<std::byte>& last() const { return last_; }
  /// The next message; of nothing if none comes.
  std::vector<std::byte> hear(MessageType* type) const {
    const std::vector<std::byte> header = receive(kFrameHeader);
    if (header.size() < kFrameHeader) return {};
    MessageReader in(header);
    const std::uint32_t size = in.u32();
    *type = static_cast<MessageType>(in.u16());
    std::vector<std::byte> rest = receive(size + kFrameCode);
    rest.resize(std::min<std::size_t>(rest.size(), size));
    return rest;
  }

 private:
  Descriptor socket_;
  Key key_{};
  std::uint64_t said_ = 0;
  std::vector<std::byte> last_;
};

}  // namespace tutti::test
