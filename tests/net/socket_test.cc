// Covers net/socket.cc, net/acceptor.cc.
// Which congestion control connections have.
#include "net/socket.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "net/acceptor.h"
#include "support/loopback.h"
#include "support/patience.h"

namespace tutti {
namespace {

std::string congestion_of(int descriptor) {
  std::array<char, 16> name{};
  socklen_t size = name.size() - 1;
  EXPECT_EQ(::getsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size), 0);
  return name.data();
}

/// The first of cubic and reno that the system lets a socket choose, else its default.
std::string best_congestion() {
  const Descriptor plain(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  for (const std::string name : {"cubic", "reno"})
    if (::setsockopt(plain.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0)
      return name;
  return congestion_of(plain.get());
}

// If it were chosen later, a connection that began with BBR would be paced for good.
TEST(Socket, HasItsCongestionControlFromTheBeginningAtBothEnds) {
  EventLoop loop;
  ASSERT_TRUE(loop.open().ok());
  std::promise<std::string> accepted;
  PendingConnections::Callbacks callbacks;
  callbacks.expected = [&](const Socket& connected) {
    accepted.set_value(congestion_of(connected.descriptor()));
    return false;
  };
  callbacks.lack = [](const Status& why) { ADD_FAILURE() << why.text(); };
  PendingConnections pending(loop, callbacks);
  std::unique_ptr<Acceptor> acceptor;
  ASSERT_TRUE(Acceptor::listen_tcp(loop, pending, 0, 0, &acceptor).ok());
  std::thread runner([&] { loop.run(); });
  Socket dialled;
  EXPECT_TRUE(Socket::connect(test::loopback(), acceptor->port(), 0, &dialled).ok());
  EXPECT_EQ(congestion_of(dialled.descriptor()), best_congestion());
  std::future<std::string> other_end = accepted.get_future();
  const bool came = other_end.wait_for(test::kPatience) == std::future_status::ready;
  EXPECT_EQ(came ? other_end.get() : "not accepted", best_congestion());
  loop.call([&] { acceptor.reset(); }, test::kPatience);
  loop.stop();
  runner.join();
}

}  // namespace
}  // namespace tutti
