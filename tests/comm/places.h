// Directories and ports for ranks to meet at.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>

#include "comm/address.h"
#include "comm/world.h"
#include "transport/descriptor.h"

namespace tutti::test {

/// Gone with the object, and all in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char name[] = "/tmp/tutti-test-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  bool empty() const { return std::filesystem::is_empty(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A TCP port that nobody uses at the moment, and that the system gives to nobody who asks for any: other tests run at
/// the same time.
inline std::uint16_t free_port() {
  std::random_device random;
  for (;;) {
    const auto port = static_cast<std::uint16_t>(10000 + random() % 10000);
    const SocketAddress at = socket_address(IpAddress{}, port);
    const Descriptor probe(::socket(AF_INET, SOCK_STREAM, 0));
    if (::bind(probe.get(), reinterpret_cast<const sockaddr*>(&at.data), at.size) == 0) return port;
  }
}

/// Listens on a port as another program would.
inline Descriptor listen_at(std::uint16_t port) {
  const SocketAddress at = socket_address(IpAddress{}, port);
  Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&at.data), at.size), 0);
  EXPECT_EQ(::listen(listener.get(), 1), 0);
  return listener;
}

inline void expect_all_ok(const SharedPage& page, int ranks) {
  for (int rank = 0; rank < ranks; ++rank)
    EXPECT_EQ(page.code(rank), Code::kOk) << "rank " << rank << ": " << page.text(rank);
}

}  // namespace tutti::test
