// Ranks as processes that exchange their segments over an abstract unix socket served by the parent.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "net/unix_socket.h"
#include "support/rank_processes.h"
#include "support/shared_memory.h"
#include "transport/world.h"

namespace tutti::testing_traffic {

inline void wait_ready(const UnixSocket& socket, short events) {
  pollfd item{socket.descriptor(), events, 0};
  (void)test::restarted([&] { return ::poll(&item, 1, 100'000); });
}

inline void must_send(UnixSocket& socket, std::span<const std::byte> message, int passed) {
  SocketState state = SocketState::kAgain;
  for (int i = 0; i < 100 && state == SocketState::kAgain; ++i) {
    const Status status = socket.send(message, passed, &state);
    require(status.ok(), status.text());
    if (state == SocketState::kAgain) wait_ready(socket, POLLOUT);
  }
  require(state == SocketState::kDone, "a message could not be sent");
}

inline std::vector<std::byte> must_receive(UnixSocket& socket, Descriptor* passed) {
  std::vector<std::byte> buffer(1024);
  SocketState state = SocketState::kAgain;
  for (int i = 0; i < 10 && state == SocketState::kAgain; ++i) {
    wait_ready(socket, POLLIN);
    std::size_t size = 0;
    const Status status = socket.receive(buffer, &size, passed, &state);
    require(status.ok(), status.text());
    buffer.resize(state == SocketState::kDone ? size : buffer.size());
  }
  require(state == SocketState::kDone, "no message arrived");
  return buffer;
}

inline std::string abstract_name() {
  static int count = 0;
  return fmt::format("tutti-test-{}-{}", ::getpid(), ++count);
}

/// Child: sends its segment, receives everybody's.
inline Segments exchange_segments(const ShmGeometry& geometry, Rank rank, UnixSocket& exchange) {
  std::shared_ptr<Segment> own;
  Status status = Segment::create(geometry.segment_bytes(), &own);
  require(status.ok(), status.text());
  const auto id = static_cast<std::byte>(rank.value);
  must_send(exchange, {&id, 1}, own->descriptor());
  Segments segments(static_cast<std::size_t>(geometry.ranks));
  for (int r = 0; r < geometry.ranks; ++r) {
    Descriptor passed;
    const auto from = static_cast<std::size_t>(must_receive(exchange, &passed).at(0));
    if (from == static_cast<std::size_t>(rank.value)) continue;
    status = Segment::adopt(passed.release(), geometry.segment_bytes(), &segments.at(from));
    require(status.ok(), status.text());
  }
  segments[static_cast<std::size_t>(rank.value)] = own;
  return segments;
}

/// Parent: collects a descriptor from each child, checks who it is, and sends all of them to all.
inline void serve_exchange(UnixSocket& listener, const test::RankProcesses& children) {
  const auto count = static_cast<std::size_t>(children.count());
  std::vector<UnixSocket> connections(count);
  std::vector<Descriptor> descriptors(count);
  for (std::size_t i = 0; i < count; ++i) {
    wait_ready(listener, POLLIN);
    UnixSocket connection;
    SocketState state = SocketState::kAgain;
    Status status = listener.accept(&connection, &state);
    require(status.ok() && state == SocketState::kDone, "a rank did not connect");
    Descriptor passed;
    const auto from = static_cast<std::size_t>(must_receive(connection, &passed).at(0));
    PeerCredentials peer;
    status = connection.credentials(&peer);
    require(
        status.ok() && from < count && peer.process == children.pid(static_cast<int>(from)) && peer.user == ::getuid(),
        "the credentials are wrong");
    connections[from] = std::move(connection);
    descriptors[from] = std::move(passed);
  }
  for (UnixSocket& connection : connections)
    for (std::size_t from = 0; from < descriptors.size(); ++from) {
      const auto id = static_cast<std::byte>(from);
      must_send(connection, {&id, 1}, descriptors[from].get());
    }
}

/// Runs body(rank, socket to the parent's exchange) in one child a rank; the children's failures fail the test.
inline void run_processes(int ranks, const std::function<void(Rank, UnixSocket&)>& body) {
  struct Failure {
    char text[512] = {};
  };
  constexpr std::size_t kMostRanks = 16;
  ASSERT_LE(static_cast<std::size_t>(ranks), kMostRanks);
  const test::SharedMemory<std::array<Failure, kMostRanks>> failures;
  const std::string name = abstract_name();
  test::RankProcesses children;
  UnixSocket listener;
  ASSERT_TRUE(UnixSocket::listen(name, &listener).ok());
  for (int r = 0; r < ranks; ++r)
    children.start([&, r] {
      const std::string failure = outcome([&] {
        UnixSocket exchange;
        SocketState state = SocketState::kAgain;
        const Status status = UnixSocket::connect(name, &exchange, &state);
        require(status.ok() && state == SocketState::kDone, "cannot connect to the parent");
        body(Rank(r), exchange);
      });
      if (failure.empty()) return;
      Failure& told = (*failures)[static_cast<std::size_t>(r)];
      std::strncpy(told.text, failure.c_str(), sizeof told.text - 1);
      ::_exit(1);
    });
  EXPECT_EQ(outcome([&] { serve_exchange(listener, children); }), "");
  for (int r = 0; r < ranks; ++r) {
    const int status = children.wait(r);
    EXPECT_EQ(std::string((*failures)[static_cast<std::size_t>(r)].text), "") << "rank " << r;
    EXPECT_EQ(status, 0) << "rank " << r;
  }
}

}  // namespace tutti::testing_traffic
