// A root that knows the secret and says what it likes: it serves a unique id by hand.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <utility>
#include <vector>

#include "comm/messages/unique_id.h"
#include "net/address.h"
#include "net/descriptor.h"
#include "net/handshake.h"
#include "support/joining_processes.h"
#include "support/loopback.h"
#include "support/ports.h"
#include "support/spoken.h"

namespace tutti::test {

/// One rank's connection to a false root, the one that was accepted last, by TCP on 127.0.0.1. One thread.
class FalseRoot : public Spoken {
 public:
  FalseRoot() {
    id_.port = free_port();
    id_.addresses.push_back(loopback());
    EXPECT_TRUE(random_bytes(id_.secret).ok());
    EXPECT_TRUE(random_bytes(id_.nonce).ok());
    listener_ = listen_at(id_.port);
  }
  IdBytes id() const { return id_.encode(); }
  std::uint64_t comm_id() const {
    std::uint64_t made = 0;
    EXPECT_TRUE(id_.comm_id(&made).ok());
    return made;
  }

  /// Nobody reaches it any more.
  void stop_listening() { listener_.reset(); }
  /// Takes a connection through the handshake; false: it did not come, or does not know the secret.
  bool accept() {
    pollfd wanted{listener_.get(), POLLIN, 0};
    if (restarted([&] { return ::poll(&wanted, 1, 100'000); }) != 1) return false;
    open(Descriptor(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
    Handshake server =
        Handshake::server([this](Role, const KeyId&, Key* secret) { return *secret = id_.secret, true; });
    while (server.wants() != 0) {
      std::vector<std::byte> answer;
      if (!server.consume(receive(server.wants()), &answer).ok()) return false;
      send(answer);
    }
    use_key(server.send_key());
    return true;
  }

 private:
  UniqueId id_;
  Descriptor listener_;
};

}  // namespace tutti::test
