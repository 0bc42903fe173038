// TUTTI_TLS=on: who may join, what is encrypted, and what happens when the ranks do not agree on it.
// Covers net/connection.cc, net/tls_session.cc, comm/membership/data_connector.cc, comm/rendezvous/join_url.cc.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdio>

#include "comm/join/join.h"
#include "comm/membership/hub.h"
#include "comm/messages/unique_id.h"
#include "comm/rendezvous/join_url.h"
#include "net/tls_credentials.h"
#include "support/joining_processes.h"
#include "support/loopback.h"
#include "support/ports.h"
#include "support/temporary_directory.h"

namespace tutti {
namespace {

using test::expect;
using test::JoiningProcesses;
using test::SharedPage;

constexpr Lane kLane{1};

/// As on different hosts: no unix socket, not even to the root.
Status join_by_tcp(int rank, int ranks, SharedPage& page, bool tls, double seconds, JoinResult* joined) {
  IdBytes id;
  if (rank == 0) {
    Settings settings;
    settings.tls = tls;
    TUTTI_TRY(make_unique_id(settings, &id));
    page.publish(id);
  }
  id = page.wait_for_id();
  JoinRequest request = test::request_for(rank, ranks, id, seconds);
  request.settings.tls = tls;
  request.settings.host_id = "host " + std::to_string(rank);
  request.agreed.push_back({"TUTTI_TLS", tls ? "on" : "off"});
  return join(request, joined);
}

/// One of the two asks: when both do, a second stream may replace the first.
bool wait_for_stream(TcpStreamSource& tcp_streams, int self, int peer_rank, TcpStream* stream) {
  const Rank peer{peer_rank};
  if (self > peer_rank) tcp_streams.want(peer, kLane);
  return test::comes_true([&] { return tcp_streams.take(peer, kLane, stream); });
}

/// Sends and receives so much that neither fits a socket buffer.
Status exchange(TcpStream& stream, int self, int peer) {
  TUTTI_TRY(expect(stream.tls && stream.tls->established(), "the stream is not encrypted"));
  std::vector<std::byte> out(10'000'000, static_cast<std::byte>(self + 1));
  std::vector<std::byte> in = std::move(stream.leftover);
  std::vector<std::byte> room(100'000);
  const Deadline deadline = Deadline::in(test::kFarSeconds);
  for (std::size_t sent = 0; sent < out.size() || in.size() < out.size() || stream.tls->wants_output();) {
    if (deadline.passed()) return fail(Code::kTimeout, "{} bytes in, {} out", in.size(), sent);
    std::size_t size = 0;
    SocketState state = SocketState::kAgain;
    if (sent < out.size()) TUTTI_TRY(stream.tls->send(std::span(out).subspan(sent), &size, &state));
    sent += size;
    TUTTI_TRY(stream.tls->receive(room, &size, &state));
    in.insert(in.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(size));
    if (state == SocketState::kClosed)
      return fail(Code::kRemoteError, "the stream to rank {} ended after {} bytes in, {} out", peer, in.size(), sent);
  }
  const std::vector<std::byte> wanted(out.size(), static_cast<std::byte>(peer + 1));
  return expect(in == wanted, "other bytes came");
}

Status meet_encrypted(int rank, int ranks, SharedPage& page) {
  JoinResult joined;
  TUTTI_TRY(join_by_tcp(rank, ranks, page, true, test::kFarSeconds, &joined));
  for (int distance = 1; distance < ranks; ++distance) {
    const int peer = rank ^ distance;
    TcpStream stream;
    TUTTI_TRY(expect(wait_for_stream(*joined.tcp_streams, rank, peer, &stream), "no stream came"));
    TUTTI_TRY(exchange(stream, rank, peer));
  }
  page.mark(0);
  TUTTI_TRY(expect(page.wait_for_mark(0, ranks), "a rank is missing"));
  joined.membership->say_goodbye(0);
  return {};
}

TEST(Tls, ProcessesJoinAndTheirStreamsAreEncrypted) {
  JoiningProcesses processes;
  processes.start_all(4, [](int rank, SharedPage& page) { return meet_encrypted(rank, 4, page); });
  processes.wait();
  test::expect_all_ok(processes.page(), 4);
}

TEST(Tls, ThreadsJoinAndTheirStreamsAreEncrypted) {
  SharedPage page;
  test::run_threads(2, page, [](int rank, SharedPage& shared) { return meet_encrypted(rank, 2, shared); });
  test::expect_all_ok(page, 2);
}

void expect_mismatch(const std::function<bool(int rank)>& uses_tls) {
  JoiningProcesses processes;
  processes.start_all(3, [&](int rank, SharedPage& page) {
    JoinResult joined;
    return join_by_tcp(rank, 3, page, uses_tls(rank), test::kFarSeconds, &joined);
  });
  processes.wait();
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(processes.page().code(rank), Code::kMismatch) << rank;
    EXPECT_NE(processes.page().text(rank).find("TUTTI_TLS"), std::string::npos) << processes.page().text(rank);
  }
}

TEST(Tls, OneRankWithoutItFailsTheJoinOfAll) {
  expect_mismatch([](int rank) { return rank != 2; });
}
TEST(Tls, OneRankWithItFailsTheJoinOfAll) {
  expect_mismatch([](int rank) { return rank == 2; });
}
TEST(Tls, ARootWithoutItFailsTheJoinOfAll) {
  expect_mismatch([](int rank) { return rank != 0; });
}

TEST(Tls, CommunicatorsWithAndWithoutShareAProcess) {
  JoiningProcesses processes;
  processes.start_all(2, [](int rank, SharedPage& page) {
    JoinResult encrypted;
    JoinResult plain;
    TUTTI_TRY(join_by_tcp(rank, 2, page, true, test::kFarSeconds, &encrypted));
    page.mark(rank);
    TUTTI_TRY(expect(page.wait_for_mark(1 - rank, 1), "the other rank is missing"));
    if (rank == 0) page.id_ready.store(false);
    page.mark(2 + rank);
    TUTTI_TRY(expect(page.wait_for_mark(2, 1), "rank 0 is missing"));
    TUTTI_TRY(join_by_tcp(rank, 2, page, false, test::kFarSeconds, &plain));
    TcpStream secret;
    TcpStream open;
    TUTTI_TRY(expect(wait_for_stream(*encrypted.tcp_streams, rank, 1 - rank, &secret), "no stream came"));
    TUTTI_TRY(expect(wait_for_stream(*plain.tcp_streams, rank, 1 - rank, &open), "no plain stream came"));
    TUTTI_TRY(exchange(secret, rank, 1 - rank));
    page.mark(4);
    TUTTI_TRY(expect(page.wait_for_mark(4, 2), "the other rank is missing"));
    encrypted.membership->say_goodbye(0);
    plain.membership->say_goodbye(0);
    return expect(!open.tls, "a plain stream is encrypted");
  });
  processes.wait();
  test::expect_all_ok(processes.page(), 2);
}

TEST(Tls, ACauseTravelsEncrypted) {
  JoiningProcesses processes;
  processes.start_all(2, [](int rank, SharedPage& page) {
    JoinResult joined;
    TUTTI_TRY(join_by_tcp(rank, 2, page, true, test::kFarSeconds, &joined));
    if (rank == 0)
      joined.membership->post_cause(FailureCause{Code::kTimeout, Rank{0}, Rank{1}, std::string(4000, 'x')});
    test::await([&] { return joined.membership->cause().code != Code::kOk; }, "the cause");
    page.mark(0);
    TUTTI_TRY(expect(page.wait_for_mark(0, 2), "the other rank is missing"));
    return expect(joined.membership->cause().text == std::string(4000, 'x'), "another cause");
  });
  processes.wait();
  test::expect_all_ok(processes.page(), 2);
}

TEST(Tls, UrlsWithASecretFileJoinAndThoseWithoutAreRefused) {
  const test::TemporaryDirectory directory;
  const std::string secret = directory.file("secret");
  FILE* const file = std::fopen(secret.c_str(), "w");
  std::fputs("a secret that nobody can guess", file);
  std::fclose(file);
  ASSERT_EQ(::chmod(secret.c_str(), 0600), 0);
  const std::string url = "tcp://127.0.0.1:" + std::to_string(test::free_port());
  for (const bool with_file : {true, false}) {
    JoiningProcesses processes;
    processes.start_all(2, [&](int rank, SharedPage&) {
      JoinRequest request = test::request_for(rank, 2, IdBytes{});
      request.settings.tls = true;
      request.settings.host_id = "host " + std::to_string(rank);
      if (with_file) request.settings.secret_file = secret;
      JoinResult joined;
      TUTTI_TRY(join_url(url, request, &joined));
      joined.membership->say_goodbye(0);
      return Status();
    });
    processes.wait();
    for (int rank = 0; rank < 2; ++rank)
      EXPECT_EQ(processes.page().code(rank), with_file ? Code::kOk : Code::kInvalidUsage)
          << processes.page().text(rank);
  }
}

/// Connects over TLS with the key of one id and asks, inside, for another: whether it is let in.
bool is_let_in(Hub& hub, const UniqueId& outside, const UniqueId& inside) {
  std::atomic<int> end{0};  // 1: open, 2: closed
  std::shared_ptr<Connection> connection;
  const auto start = [&] {
    Socket socket;
    ASSERT_TRUE(Socket::connect(test::loopback(), outside.port, 0, &socket).ok());
    ASSERT_TRUE(encrypt_as_client(Role::kJoin, outside.nonce, outside.secret, &socket).ok());
    ConnectionEvents events;
    events.on_open = [&](const std::shared_ptr<Connection>&) { end = 1; };
    events.on_close = [&](const Status&) { end = 2; };
    ASSERT_TRUE(Connection::start(hub.loop(), std::move(socket),
                                  Handshake::client(Role::kJoin, inside.nonce, inside.secret), std::move(events),
                                  &connection)
                    .ok());
  };
  EXPECT_TRUE(hub.loop().call(start, test::kPatience));
  test::await([&] { return end != 0; }, "the end of the handshake");
  EXPECT_TRUE(hub.loop().call([&] { connection->close(); }, test::kPatience));
  return end == 1;
}

TEST(Tls, TheKeyOfOneIdOpensNoOther) {
  IdBytes bytes[2];
  UniqueId ids[2];
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(make_unique_id(Settings{}, &bytes[i]).ok());
    ASSERT_TRUE(UniqueId::decode(bytes[i], &ids[i]).ok());
  }
  std::shared_ptr<Hub> hub;
  ASSERT_TRUE(Hub::acquire(Settings{}, &hub).ok());
  EXPECT_TRUE(is_let_in(*hub, ids[0], ids[0]));
  EXPECT_FALSE(is_let_in(*hub, ids[0], ids[1]));
  withdraw_unique_id(Settings{}, bytes[0]);
  withdraw_unique_id(Settings{}, bytes[1]);
}

}  // namespace
}  // namespace tutti
