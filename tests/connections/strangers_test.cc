// Strangers at the listener while ranks add over TCP: port scanners, web clients, noise, replays, crowds, half a TLS
// hello. None of them gets anything, none of them costs much, and no rank notices. Only 127.0.0.1.
// Covers net/acceptor.cc, net/connection.cc, net/handshake.cc.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "comm/join/join.h"
#include "comm/membership/hub.h"
#include "comm/messages/messages.h"
#include "comm/messages/unique_id.h"
#include "net/handshake.h"
#include "net/tls_credentials.h"
#include "support/await.h"
#include "support/process_usage.h"
#include "support/scoped_setting.h"

namespace tutti {
namespace {

using Buffer = std::vector<std::byte>;
using test::resident_kilobytes;
using test::ScopedSetting;

constexpr int kStrangerRanks = 3;

/// Ranks that add, check and add again until they are told to stop.
class Adders {
 public:
  Adders() {
    tuttiUniqueId raw{};
    EXPECT_EQ(tuttiGetUniqueId(&raw), tuttiSuccess) << tuttiGetLastError(nullptr);
    IdBytes bytes{};
    std::memcpy(bytes.data(), raw.internal, bytes.size());
    EXPECT_TRUE(UniqueId::decode(bytes, &id_).ok());
    for (int rank = 0; rank < kStrangerRanks; ++rank) threads_.emplace_back([this, raw, rank] { run(raw, rank); });
    expect_progress();
  }
  ~Adders() {
    stop_.store(true);
    for (std::thread& thread : threads_) thread.join();
  }
  Adders(const Adders&) = delete;
  Adders& operator=(const Adders&) = delete;

  const UniqueId& id() const { return id_; }
  /// All ranks are still at it.
  void expect_progress() const {
    const long before = rounds_.load();
    test::await([&] { return rounds_.load() >= before + 10 || failures_.load() != 0; }, "ten rounds of the ranks");
    EXPECT_EQ(failures_.load(), 0);
    EXPECT_GE(rounds_.load(), before + 10);
  }

 private:
  void run(const tuttiUniqueId& id, int rank) {
    tuttiComm_t comm = nullptr;
    if (tuttiCommInitRank(&comm, kStrangerRanks, id, rank) != tuttiSuccess) return failed();
    constexpr std::size_t kCount = 40'000;
    std::vector<int> in(kCount + 1);
    std::vector<int> out(kCount + 1);
    bool last = false;
    for (int round = 0; !last; ++round) {
      for (std::size_t i = 0; i < kCount; ++i) in[i] = rank + round + static_cast<int>(i);
      in[kCount] = rank == 0 && stop_.load() ? 1 : 0;  // all ranks stop in the same round
      if (tuttiAllReduce(in.data(), out.data(), kCount + 1, tuttiInt32, tuttiSum, comm, nullptr) != tuttiSuccess)
        return failed();
      for (std::size_t i = 0; i < kCount; ++i)
        if (out[i] != kStrangerRanks * (round + static_cast<int>(i)) + kStrangerRanks * (kStrangerRanks - 1) / 2)
          return failed();
      last = out[kCount] != 0;
      if (rank == 0) rounds_.fetch_add(1);
    }
    if (tuttiCommDestroy(comm) != tuttiSuccess) failed();
  }
  void failed() {
    failures_.fetch_add(1);
    ADD_FAILURE() << "a rank failed: " << tuttiGetLastError(nullptr);
  }

  UniqueId id_;
  std::atomic<bool> stop_{false};
  std::atomic<long> rounds_{0};
  std::atomic<int> failures_{0};
  std::vector<std::thread> threads_;
};

/// A stranger's connection.
class Pending {
 public:
  explicit Pending(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    IpAddress local;
    local.bytes[0] = std::byte{127};
    local.bytes[3] = std::byte{1};
    const SocketAddress to = socket_address(local, port);
    EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to.data), to.size), 0) << errno;
  }
  void send(ByteView data) const {
    ::fcntl(socket_.get(), F_SETFL, O_NONBLOCK);
    (void)::send(socket_.get(), data.data(), data.size(), MSG_NOSIGNAL);  // it may have been closed already
  }
  void send(const std::string& text) const { send(bytes_of(text)); }
  /// What comes until the other end closes, or `wanted` bytes have come.
  Buffer receive(std::size_t wanted, bool* closed) const {
    Buffer got;
    *closed = false;
    while (got.size() < wanted && !*closed) {
      pollfd wait{socket_.get(), POLLIN, 0};
      if (test::restarted([&] { return ::poll(&wait, 1, 100'000); }) != 1) return got;
      Buffer room(wanted - got.size());
      const ssize_t size = ::recv(socket_.get(), room.data(), room.size(), 0);
      *closed = size <= 0;
      if (size > 0) got.insert(got.end(), room.begin(), room.begin() + size);
    }
    return got;
  }
  bool is_closed() const {
    pollfd end{socket_.get(), POLLRDHUP, 0};
    return ::poll(&end, 1, 0) == 1 && end.revents != 0;
  }
  /// Nothing but an end, or a TLS alert and an end.
  void expect_turned_away(const std::string& who) const {
    bool closed = false;
    const Buffer got = receive(4096, &closed);
    EXPECT_TRUE(closed) << who;
    EXPECT_TRUE(got.empty() || (got[0] == std::byte{21} && got.size() <= 64)) << who << " got " << got.size();
  }

 private:
  Descriptor socket_;
};

Buffer noise(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  Buffer bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

/// The first bytes of a TLS client that knows no key of ours.
Buffer tls_hello() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  const Descriptor mine(ends[0]);
  const Descriptor other(ends[1]);
  std::unique_ptr<TlsSession> session;
  SocketState state = SocketState::kAgain;
  EXPECT_TRUE(TlsSession::client(mine.get(), tls_identity(Role::kControl, KeyId{}), TlsKey{}, &session).ok());
  EXPECT_TRUE(session->handshake(&state).ok());
  Buffer hello(4096);
  hello.resize(static_cast<std::size_t>(std::max<ssize_t>(::recv(other.get(), hello.data(), hello.size(), 0), 0)));
  return hello;
}

/// With encrypted and with plain connections between the ranks.
class Strangers : public testing::TestWithParam<bool> {
 protected:
  void TearDown() override { EXPECT_TRUE(wait_for_no_hub(test::kPatience)); }
  const ScopedSetting transport_{"TUTTI_TRANSPORT", "tcp"};
  const ScopedSetting tls_{"TUTTI_TLS", GetParam() ? "on" : "off"};
};

TEST_P(Strangers, PortScannersAreHarmless) {
  const Adders adders;
  for (int i = 0; i < 200; ++i) Pending scanner(adders.id().port);
  std::vector<Pending> silent;
  for (int i = 0; i < 20; ++i) silent.emplace_back(adders.id().port);
  adders.expect_progress();
}

TEST_P(Strangers, WebClientsAndNoiseAreTurnedAway) {
  const Adders adders;
  const std::string request = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: a browser\r\nAccept: */*\r\n\r\n";
  ASSERT_GT(request.size(), Handshake::kHelloSize);
  Pending browser(adders.id().port);
  browser.send(request);
  browser.expect_turned_away("a web client");
  for (const std::size_t size : {64u, 65u, 100u, 1000u, 5000u, 70'000u, 1'000'000u}) {
    Buffer data = noise(size, static_cast<unsigned>(size));
    data[0] = std::byte{'x'};
    Pending plain(adders.id().port);
    plain.send(data);
    plain.expect_turned_away("noise");
    // And as a TLS record: of a handshake, of a length that fits.
    const unsigned length = static_cast<unsigned>(std::min<std::size_t>(size - 5, 16384));
    const unsigned char head[] = {22, 3, 1, static_cast<unsigned char>(length >> 8),
                                  static_cast<unsigned char>(length)};
    std::memcpy(data.data(), head, sizeof(head));
    Pending record(adders.id().port);
    record.send(data);
    record.expect_turned_away("noise in a TLS record");
  }
  for (std::size_t size = 1; size < 64; ++size) {  // too little to be judged; the end of the connection comes first
    Pending some(adders.id().port);
    some.send(noise(size, 3));
  }
  adders.expect_progress();
}

TEST_P(Strangers, HalfATlsHelloGetsNothing) {
  const Adders adders;
  const Buffer hello = tls_hello();
  ASSERT_GT(hello.size(), 100u);
  std::vector<Pending> waiting;
  for (std::size_t size = 1; size < hello.size(); size += 7) {
    waiting.emplace_back(adders.id().port);
    waiting.back().send(ByteView(hello).first(size));
  }
  Pending whole(adders.id().port);
  whole.send(hello);
  whole.expect_turned_away("a TLS client without a key");
  adders.expect_progress();
}

/// A good client of an id that was used up: it passes the handshake and is told so. Returns what it sent.
void record_good_client(const UniqueId& id, Buffer* hello, Buffer* challenge, Buffer* proof) {
  Handshake client = Handshake::client(Role::kJoin, id.nonce, id.secret);
  ASSERT_TRUE(client.start(hello).ok());
  const Pending connection(id.port);
  connection.send(*hello);
  bool closed = false;
  *challenge = connection.receive(Handshake::kChallengeSize, &closed);
  ASSERT_TRUE(client.consume(*challenge, proof).ok());
  connection.send(*proof);
  const Buffer frame = connection.receive(8, &closed);
  ASSERT_EQ(frame.size(), 8u);
  ASSERT_EQ(std::to_integer<int>(frame[4]), static_cast<int>(MessageType::kFailure));
}

TEST_P(Strangers, ReplayedHandshakesAreTurnedAway) {
  const Adders adders;
  Buffer hello;
  Buffer challenge;
  Buffer proof;
  ASSERT_NO_FATAL_FAILURE(record_good_client(adders.id(), &hello, &challenge, &proof));
  for (int i = 0; i < 20; ++i) {
    const Pending replay(adders.id().port);
    replay.send(hello);
    replay.send(proof);
    bool closed = false;
    const Buffer answer = replay.receive(4096, &closed);  // a challenge of its own, and the end
    EXPECT_TRUE(closed);
    EXPECT_EQ(answer.size(), Handshake::kChallengeSize);
    EXPECT_NE(answer, challenge);
    const Pending reflection(adders.id().port);  // what the server says, said to the server
    reflection.send(challenge);
    reflection.expect_turned_away("a reflected challenge");
  }
  adders.expect_progress();
}

/// Who answers a rank's hello with a recorded challenge gets nothing more from it.
TEST_P(Strangers, AReplayedRootIsNotBelieved) {
  const Adders adders;
  Buffer hello;
  Buffer challenge;
  Buffer proof;
  ASSERT_NO_FATAL_FAILURE(record_good_client(adders.id(), &hello, &challenge, &proof));
  IpAddress local;
  local.bytes[0] = std::byte{127};
  local.bytes[3] = std::byte{1};
  SocketAddress at = socket_address(local, 0);
  const Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&at.data), at.size), 0);
  ASSERT_EQ(::listen(listener.get(), 16), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at.data), &at.size), 0);
  UniqueId forged = adders.id();
  forged.nonce[0] ^= std::byte{1};  // served by nobody here
  forged.port = ntohs(reinterpret_cast<const sockaddr_in*>(&at.data)->sin_port);
  forged.addresses.assign(1, local);
  std::atomic<bool> stop{false};
  std::atomic<std::size_t> most{0};
  std::thread root([&] {
    while (!stop.load()) {
      pollfd wait{listener.get(), POLLIN, 0};
      if (::poll(&wait, 1, 20) != 1) continue;
      const Descriptor accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      Buffer room(4096);
      std::size_t got = 0;
      for (ssize_t size = 1; size > 0 && got < room.size();
           got += static_cast<std::size_t>(std::max<ssize_t>(size, 0))) {
        size = ::recv(accepted.get(), room.data() + got, room.size() - got, 0);
        (void)::send(accepted.get(), challenge.data(), challenge.size(), MSG_NOSIGNAL);
      }
      most.store(std::max(most.load(), got));
    }
  });
  JoinRequest request;
  request.id = forged.encode();
  request.rank = Rank{0};
  request.ranks = 2;
  request.deadline = Deadline::in(test::kFarSeconds);
  request.settings.tls = GetParam();
  JoinResult joined;
  const Status status = join(request, &joined);
  stop.store(true);
  root.join();
  EXPECT_EQ(status.code(), Code::kRemoteError) << status.text();
  EXPECT_GT(most.load(), 0u);
  if (!GetParam()) {
    EXPECT_EQ(most.load(), Handshake::kHelloSize);  // and no proof that could be used elsewhere
  }
  adders.expect_progress();
}

TEST_P(Strangers, ACrowdKeepsNobodyOut) {
  const Adders adders;
  const Buffer hello = tls_hello();
  const long before = resident_kilobytes();
  std::vector<Pending> crowd;
  for (int i = 0; i < 600; ++i) {
    crowd.emplace_back(adders.id().port);
    if (i % 3 == 1) crowd.back().send(noise(50, static_cast<unsigned>(i)));
    if (i % 3 == 2) crowd.back().send(ByteView(hello).first(hello.size() - 1));
  }
  adders.expect_progress();
  const long grown = resident_kilobytes() - before;
  if (!test::kSanitized) {
    EXPECT_LT(grown, 32 * 1024) << "KiB for 600 strangers";
  }
  RecordProperty("grown_kilobytes", static_cast<int>(grown));

  tuttiComm_t comms[2] = {nullptr, nullptr};  // another join passes through the crowd: these ranks meet over TCP, too
  ASSERT_EQ(tuttiCommInitAll(comms, 2, nullptr), tuttiSuccess) << tuttiGetLastError(nullptr);
  const auto meet = [](tuttiComm_t comm) {
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess) << tuttiGetLastError(nullptr);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  };
  std::thread other(meet, comms[1]);
  meet(comms[0]);
  other.join();
  // Those that said nothing were dropped before those that said something.
  const auto dropped = [&](int kind) {
    int count = 0;
    for (int i = kind; i < 600; i += 3) count += crowd[static_cast<std::size_t>(i)].is_closed() ? 1 : 0;
    return count;
  };
  EXPECT_GE(dropped(0), (600 - static_cast<int>(PendingConnections::kMostPending)) / 2);
  EXPECT_GT(dropped(0), dropped(1));
  adders.expect_progress();
}

INSTANTIATE_TEST_SUITE_P(Tls, Strangers, testing::Bool(),
                         [](const auto& info) { return info.param ? "encrypted" : "plain"; });

}  // namespace
}  // namespace tutti
