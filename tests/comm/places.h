// Directories and ports for ranks to meet at.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <filesystem>
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

/// A TCP port that nobody uses at the moment.
inline std::uint16_t free_port() {
  IpAddress any;
  SocketAddress at = socket_address(any, 0);
  const Descriptor probe(::socket(AF_INET, SOCK_STREAM, 0));
  ::bind(probe.get(), reinterpret_cast<const sockaddr*>(&at.data), at.size);
  sockaddr_in bound{};
  socklen_t size = sizeof(bound);
  ::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&bound), &size);
  return ntohs(bound.sin_port);
}

inline void expect_all_ok(const SharedPage& page, int ranks) {
  for (int rank = 0; rank < ranks; ++rank)
    EXPECT_EQ(page.code(rank), Code::kOk) << "rank " << rank << ": " << page.text(rank);
}

}  // namespace tutti::test
