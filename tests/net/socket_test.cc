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
#include <utility>

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

bool choose(int descriptor, const std::string& name) {
  return ::setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0;
}

Descriptor plain_socket() { return Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

TEST(Socket, PrefersCubic) {
  const Descriptor socket = plain_socket();
  if (!choose(socket.get(), "cubic") || !choose(socket.get(), "reno")) GTEST_SKIP() << "the system leaves no choice";
  choose_congestion(socket.get());
  EXPECT_EQ(congestion_of(socket.get()), "cubic");
}

// If it were chosen later, a connection that began with BBR would be paced for good.
TEST(Socket, HasItsCongestionControlFromTheBeginningAtBothEnds) {
  const Descriptor plain = plain_socket();
  const std::string initial = congestion_of(plain.get());
  choose_congestion(plain.get());
  const std::string best = congestion_of(plain.get());
  if (best == initial) GTEST_SKIP() << "the system's default is " << best << " in any case";
  EventLoop loop;
  ASSERT_TRUE(loop.open().ok());
  std::promise<std::string> accepted;
  PendingConnections::Callbacks callbacks;
  bool came_before = false;
  callbacks.expected = [&](const Socket& connected) {
    if (!std::exchange(came_before, true)) accepted.set_value(congestion_of(connected.descriptor()));
    return false;
  };
  callbacks.lack = [](const Status& why) { ADD_FAILURE() << why.text(); };
  PendingConnections pending(loop, callbacks);
  std::unique_ptr<Acceptor> acceptor;
  ASSERT_TRUE(Acceptor::listen_tcp(loop, pending, 0, 0, &acceptor).ok());
  std::thread runner([&] { loop.run(); });
  Socket dialled;
  EXPECT_TRUE(Socket::connect(test::loopback(), acceptor->port(), 0, &dialled).ok());
  EXPECT_EQ(congestion_of(dialled.descriptor()), best);
  std::future<std::string> other_end = accepted.get_future();
  const bool came = other_end.wait_for(test::kPatience) == std::future_status::ready;
  EXPECT_EQ(came ? other_end.get() : "not accepted", best);
  loop.call([&] { acceptor.reset(); }, test::kPatience);
  loop.stop();
  runner.join();
}

}  // namespace
}  // namespace tutti
