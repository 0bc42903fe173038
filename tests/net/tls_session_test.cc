// Covers net/tls_session.cc.
#include "net/tls_session.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

#include "net/descriptor.h"

namespace tutti {
namespace {

using Buffer = std::vector<std::byte>;

TlsKey key_of(int seed) {
  TlsKey key{};
  key[5] = static_cast<std::byte>(seed);
  return key;
}

TlsLookup serves(const std::string& name, const TlsKey& key) {
  return [name, key](std::string_view identity, TlsKey* out) { return identity == name ? (*out = key, true) : false; };
}

Buffer noise(std::size_t size, unsigned seed = 1) {
  std::mt19937 random(seed);
  Buffer bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

/// Two ends over a pair of stream sockets.
struct Pair {
  Descriptor sockets[2];
  std::unique_ptr<TlsSession> client;
  std::unique_ptr<TlsSession> server;

  explicit Pair(const TlsLookup& lookup = serves("1:abc", key_of(1)), const TlsKey& key = key_of(1)) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    sockets[0].reset(ends[0]);
    sockets[1].reset(ends[1]);
    EXPECT_TRUE(TlsSession::client(ends[0], "1:abc", key, &client).ok());
    EXPECT_TRUE(TlsSession::server(ends[1], lookup, &server).ok());
  }
  /// Both ends in turn until they are done or one has failed.
  void shake(Status* client_status, Status* server_status) {
    SocketState states[2] = {SocketState::kAgain, SocketState::kAgain};
    for (int i = 0; i < 10 && client_status->ok() && server_status->ok(); ++i) {
      if (states[0] == SocketState::kAgain) *client_status = client->handshake(&states[0]);
      if (states[1] == SocketState::kAgain) *server_status = server->handshake(&states[1]);
    }
  }
  bool shake() {
    Status statuses[2];
    shake(&statuses[0], &statuses[1]);
    EXPECT_TRUE(statuses[0].ok() && statuses[1].ok()) << statuses[0].text() << ", " << statuses[1].text();
    return client->established() && server->established();
  }
};

void expect_all_arrives(TlsSession& from, int from_socket, TlsSession& to, int to_socket, const Buffer& data,
                        std::size_t piece) {
  std::size_t sent = 0;
  Buffer got;
  Buffer room(40'000);
  while (got.size() < data.size()) {
    SocketState state = SocketState::kDone;
    std::size_t size = 0;
    while (sent < data.size() && state == SocketState::kDone) {
      ASSERT_TRUE(from.send(std::span(data).subspan(sent, std::min(piece, data.size() - sent)), &size, &state).ok());
      sent += size;
    }
    EXPECT_TRUE(state == SocketState::kDone || from.wants_output()) << from_socket;
    do {
      ASSERT_TRUE(to.receive(room, &size, &state).ok());
      got.insert(got.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(size));
    } while (state == SocketState::kDone);
    ASSERT_EQ(state, SocketState::kAgain) << to_socket;
    ASSERT_TRUE(from.flush(&state).ok());
  }
  EXPECT_FALSE(from.wants_output());
  EXPECT_TRUE(got == data);
}

TEST(TlsSession, BothEndsWithTheSameKeyAreEstablished) {
  Pair pair;
  ASSERT_TRUE(pair.shake());
  SocketState state = SocketState::kAgain;
  ASSERT_TRUE(pair.client->handshake(&state).ok());
  EXPECT_EQ(state, SocketState::kDone);
  EXPECT_FALSE(pair.client->wants_output());
}

TEST(TlsSession, BytesArriveInOrderWhateverTheSizes) {
  const Buffer data = noise(1'500'000);
  for (const std::size_t piece : {1u, 7u, 16384u, 65536u, 65537u, 1'500'000u}) {
    Pair pair;
    ASSERT_TRUE(pair.shake());
    const Buffer part(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(std::min(data.size(), 5000 * piece)));
    expect_all_arrives(*pair.client, 0, *pair.server, 1, part, piece);
    expect_all_arrives(*pair.server, 1, *pair.client, 0, part, piece);
  }
}

TEST(TlsSession, WhatWasTakenOverArrivesAndNothingElse) {
  Pair pair;
  ASSERT_TRUE(pair.shake());
  const Buffer data = noise(3'000'000);
  Buffer wanted;
  Buffer got;
  Buffer room(50'000);
  std::size_t size = 0;
  SocketState state = SocketState::kDone;
  while (state == SocketState::kDone) {  // until the socket is full
    ASSERT_TRUE(pair.client->send(std::span(data).subspan(wanted.size()), &size, &state).ok());
    wanted.insert(wanted.end(), data.begin() + static_cast<std::ptrdiff_t>(wanted.size()),
                  data.begin() + static_cast<std::ptrdiff_t>(wanted.size() + size));
  }
  EXPECT_TRUE(pair.client->wants_output());
  EXPECT_EQ(size, 0u);
  const Buffer other(1000, std::byte{7});  // what comes next need not be what was offered before
  for (int i = 0; i < 1000 && got.size() < wanted.size() + other.size(); ++i) {
    ASSERT_TRUE(pair.server->receive(room, &size, &state).ok());
    got.insert(got.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(size));
    if (wanted.size() < got.size() + 100'000 && !pair.client->wants_output() && wanted.back() != other[0]) {
      ASSERT_TRUE(pair.client->send(other, &size, &state).ok());
      if (size == other.size()) wanted.insert(wanted.end(), other.begin(), other.end());
    }
    ASSERT_TRUE(pair.client->receive(room, &size, &state).ok());  // hands over what is held
  }
  EXPECT_TRUE(got == wanted);
  EXPECT_EQ(wanted.back(), other.back());
}

TEST(TlsSession, SendAndReceiveDoTheHandshakeThemselves) {
  Pair pair;
  const Buffer data = noise(100'000);
  std::size_t sent = 0;
  Buffer got;
  Buffer room(3000);
  for (int i = 0; i < 10'000 && got.size() < data.size(); ++i) {
    std::size_t size = 0;
    SocketState state = SocketState::kAgain;
    if (sent < data.size()) {
      ASSERT_TRUE(pair.client->send(std::span(data).subspan(sent), &size, &state).ok());
    }
    sent += size;
    ASSERT_TRUE(pair.server->receive(room, &size, &state).ok());
    got.insert(got.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(size));
  }
  EXPECT_TRUE(got == data);
}

TEST(TlsSession, BothWaysAtOnceFromTwoThreads) {
  Pair pair;
  const Buffer data = noise(4'000'000);
  const auto run = [&data](TlsSession& session, int socket) {
    Buffer got;
    Buffer room(100'000);
    std::size_t sent = 0;
    while (got.size() < data.size() || sent < data.size() || session.wants_output()) {
      std::size_t size = 0;
      SocketState state = SocketState::kAgain;
      if (sent < data.size()) {
        ASSERT_TRUE(session.send(std::span(data).subspan(sent), &size, &state).ok());
      }
      sent += size;
      ASSERT_TRUE(session.receive(room, &size, &state).ok());
      got.insert(got.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(size));
      pollfd wait{socket, static_cast<short>(POLLIN | (session.wants_output() ? POLLOUT : 0)), 0};
      if (state == SocketState::kAgain && size == 0 && got.size() < data.size()) ::poll(&wait, 1, 1000);
    }
    EXPECT_TRUE(got == data);
  };
  std::thread other([&] { run(*pair.server, pair.sockets[1].get()); });
  run(*pair.client, pair.sockets[0].get());
  other.join();
}

TEST(TlsSession, AnotherKeyIsRefusedByBoth) {
  Pair pair(serves("1:abc", key_of(1)), key_of(2));
  Status client;
  Status server;
  pair.shake(&client, &server);
  EXPECT_EQ(server.code(), Code::kRemoteError) << server.text();
  SocketState state = SocketState::kDone;
  client = pair.client->handshake(&state);
  EXPECT_EQ(client.code(), Code::kRemoteError) << client.text();
  EXPECT_FALSE(pair.client->established() || pair.server->established());
  EXPECT_FALSE(pair.server->handshake(&state).ok());  // and stays so
}

TEST(TlsSession, AnUnknownIdentityIsRefused) {
  Pair pair(serves("1:abd", key_of(1)));
  Status client;
  Status server;
  pair.shake(&client, &server);
  EXPECT_NE(server.text().find("not served here"), std::string::npos) << server.text();
  EXPECT_FALSE(pair.client->established() || pair.server->established());
}

TEST(TlsSession, KeysAreRenewedOnTheWay) {
  Pair pair;
  ASSERT_TRUE(TlsSession::client(pair.sockets[0].get(), "1:abc", key_of(1), &pair.client, 3).ok());
  ASSERT_TRUE(TlsSession::server(pair.sockets[1].get(), serves("1:abc", key_of(1)), &pair.server, 5).ok());
  ASSERT_TRUE(pair.shake());
  const Buffer data = noise(50'000);
  expect_all_arrives(*pair.client, 0, *pair.server, 1, data, 100);
  expect_all_arrives(*pair.server, 1, *pair.client, 0, data, 100);
  expect_all_arrives(*pair.client, 0, *pair.server, 1, noise(1'000'000), 1'000'000);
}

TEST(TlsSession, TheEndOfTheOtherEndIsAnEnd) {
  Pair pair;
  ASSERT_TRUE(pair.shake());
  const Buffer data = noise(10'000);
  std::size_t size = 0;
  SocketState state = SocketState::kAgain;
  ASSERT_TRUE(pair.client->send(data, &size, &state).ok());
  ASSERT_EQ(size, data.size());
  pair.client.reset();
  pair.sockets[0].reset();
  ASSERT_TRUE(pair.server->send(data, &size, &state).ok());  // nobody reads it; no SIGPIPE
  Buffer room(20'000);
  ASSERT_TRUE(pair.server->receive(room, &size, &state).ok());
  EXPECT_EQ(size, data.size());  // what was sent before comes first
  ASSERT_TRUE(pair.server->receive(room, &size, &state).ok());
  EXPECT_EQ(state, SocketState::kClosed);
  ASSERT_TRUE(pair.server->receive(room, &size, &state).ok());
  EXPECT_EQ(state, SocketState::kClosed);
}

TEST(TlsSession, AChangedRecordIsAnError) {
  for (const std::size_t bit : {3u, 37u, 41u, 400u, 8000u}) {
    Pair pair;
    ASSERT_TRUE(pair.shake());
    const Buffer data = noise(2000);
    std::size_t size = 0;
    SocketState state = SocketState::kAgain;
    ASSERT_TRUE(pair.client->send(data, &size, &state).ok());
    Buffer wire(4000);
    wire.resize(static_cast<std::size_t>(::recv(pair.sockets[1].get(), wire.data(), wire.size(), 0)));
    wire[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    ::shutdown(pair.sockets[0].get(), SHUT_WR);
    int ends[2] = {-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    const Descriptor writer(ends[0]);
    ASSERT_EQ(::dup2(ends[1], pair.sockets[1].get()), pair.sockets[1].get());
    ::close(ends[1]);
    ASSERT_EQ(::send(writer.get(), wire.data(), wire.size(), 0), static_cast<ssize_t>(wire.size()));
    Buffer room(4000);
    const Status status = pair.server->receive(room, &size, &state);
    EXPECT_EQ(status.code(), Code::kRemoteError) << "bit " << bit;
    EXPECT_EQ(size, 0u);
    EXPECT_FALSE(pair.server->receive(room, &size, &state).ok());
  }
}

TEST(TlsSession, NoiseAndPlainTextAreRefusedAndCostLittle) {
  const std::string request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  std::vector<Buffer> openings(200);
  for (std::size_t i = 0; i < openings.size(); ++i) {
    openings[i] = noise(i * 37 + 6, static_cast<unsigned>(i));
    if (i % 2 == 0)
      std::copy_n(std::begin({std::byte{0x16}, std::byte{3}, std::byte{1}, std::byte{0}}), 4, openings[i].begin());
  }
  const auto text = std::as_bytes(std::span(request));
  openings.emplace_back(text.begin(), text.end());
  for (const Buffer& opening : openings) {
    Pair pair;
    ASSERT_EQ(::send(pair.sockets[0].get(), opening.data(), opening.size(), 0), static_cast<ssize_t>(opening.size()));
    ::shutdown(pair.sockets[0].get(), SHUT_WR);
    SocketState state = SocketState::kDone;
    const Status status = pair.server->handshake(&state);
    EXPECT_TRUE(!status.ok() || state == SocketState::kClosed || state == SocketState::kAgain);
    EXPECT_FALSE(pair.server->established());
  }
}

TEST(TlsSession, AHelloWithoutEndIsCutOff) {
  Pair pair;
  // A record of 16000 bytes of a hello said to be longer: more than any handshake of ours has.
  Buffer opening(16000);
  const unsigned char head[] = {0x16, 3, 1, 0x3e, 0x80, 1, 0, 0xff, 0xff};
  for (std::size_t i = 0; i < sizeof(head); ++i) opening[i] = static_cast<std::byte>(head[i]);
  Status status;
  for (int i = 0; i < 20 && status.ok(); ++i) {
    (void)::send(pair.sockets[0].get(), opening.data(), opening.size(), MSG_NOSIGNAL);
    SocketState state = SocketState::kDone;
    status = pair.server->handshake(&state);
    if (state == SocketState::kClosed) break;
  }
  EXPECT_EQ(status.code(), Code::kRemoteError) << status.text();
}

TEST(TlsSession, ARecordedHelloCannotBeUsedAgain) {
  Pair recorded;
  SocketState state = SocketState::kAgain;
  ASSERT_TRUE(recorded.client->handshake(&state).ok());
  Buffer hello(4000);
  hello.resize(static_cast<std::size_t>(::recv(recorded.sockets[1].get(), hello.data(), hello.size(), MSG_PEEK)));
  ASSERT_TRUE(recorded.shake());
  const Buffer secret_text = noise(500);
  std::size_t size = 0;
  ASSERT_TRUE(recorded.client->send(secret_text, &size, &state).ok());
  Buffer rest(4000);
  rest.resize(static_cast<std::size_t>(::recv(recorded.sockets[1].get(), rest.data(), rest.size(), 0)));

  Pair replay;
  ASSERT_GT(::send(replay.sockets[0].get(), hello.data(), hello.size(), 0), 0);
  ASSERT_TRUE(replay.server->handshake(&state).ok());  // the hello is a good one: it answers with keys of its own
  EXPECT_FALSE(replay.server->established());
  ASSERT_GT(::send(replay.sockets[0].get(), rest.data(), rest.size(), 0), 0);
  Buffer room(4000);
  EXPECT_EQ(replay.server->receive(room, &size, &state).code(), Code::kRemoteError);
  EXPECT_EQ(size, 0u);
  EXPECT_FALSE(replay.server->established());
}

TEST(TlsSession, NothingOfTheTextIsOnTheWire) {
  Pair pair;
  ASSERT_TRUE(pair.shake());
  const Buffer data(3000, std::byte{'a'});
  std::size_t size = 0;
  SocketState state = SocketState::kAgain;
  ASSERT_TRUE(pair.client->send(data, &size, &state).ok());
  Buffer wire(5000);
  wire.resize(static_cast<std::size_t>(::recv(pair.sockets[1].get(), wire.data(), wire.size(), 0)));
  EXPECT_GT(wire.size(), data.size());
  const Buffer run(8, std::byte{'a'});
  EXPECT_EQ(std::search(wire.begin(), wire.end(), run.begin(), run.end()), wire.end());
}

}  // namespace
}  // namespace tutti
