// TCP ports for tests to listen at.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

#include "net/address.h"
#include "net/descriptor.h"

namespace tutti::test {

/// Whether no other process of these tests has taken the port for itself: a name that the system takes back at the
/// process's end.
inline bool reserve_port(std::uint16_t port) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string text = "tutti-test-port-" + std::to_string(port);
  std::copy(text.begin(), text.end(), name.sun_path + 1);  // abstract
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  if (::bind(descriptor, reinterpret_cast<const sockaddr*>(&name), size) == 0) return true;  // and stays open
  ::close(descriptor);
  return false;
}

/// A TCP port that nobody uses at the moment, and that the system gives to nobody who asks for any; no other process of
/// these tests gets it: they run at the same time.
inline std::uint16_t free_port() {
  std::random_device random;
  for (int tries = 0; tries < 1000; ++tries) {
    const auto port = static_cast<std::uint16_t>(10000 + random() % 10000);
    const SocketAddress at = socket_address(IpAddress{}, port);
    const Descriptor probe(::socket(AF_INET, SOCK_STREAM, 0));
    const bool free = ::bind(probe.get(), reinterpret_cast<const sockaddr*>(&at.data), at.size) == 0;
    if (free && reserve_port(port)) return port;
  }
  ADD_FAILURE() << "no port from 10000 to 19999 is free";
  return 0;
}

/// Listens on a port as another program would.
inline Descriptor listen_at(std::uint16_t port) {
  const SocketAddress at = socket_address(IpAddress{}, port);
  Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&at.data), at.size), 0);
  EXPECT_EQ(::listen(listener.get(), 1), 0);
  return listener;
}

}  // namespace tutti::test
