// Who listens to all that ranks say over TCP, without encryption, learns no secret: the program keeps a copy of all
// that it writes to TCP sockets. Its functions stand in front of the system's.
// Covers comm/split.cc, comm/rendezvous/url_service.cc, net/handshake.cc, net/tls_session.cc.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "comm/api/handle.h"
#include "comm/messages/unique_id.h"
#include "comm/rendezvous/tcp_rendezvous.h"
#include "support/connections.h"
#include "support/next_function.h"
#include "support/ports.h"
#include "support/ranks.h"

namespace {

/// What was written to sockets while it was on, one after the other.
struct Tape {
  std::mutex mutex;
  std::vector<std::byte> bytes;
  std::atomic<bool> on{false};
  static Tape& get() {
    static Tape* const instance = new Tape;
    return *instance;
  }
};

/// Of any kind: what goes through the unix sockets of one host goes through TCP between two.
bool is_socket(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) == 0;
}

void record(int descriptor, const iovec* pieces, std::size_t count, ssize_t written) {
  if (!Tape::get().on.load() || written <= 0 || !is_socket(descriptor)) return;
  const std::lock_guard lock(Tape::get().mutex);
  auto left = static_cast<std::size_t>(written);
  for (std::size_t i = 0; i < count && left != 0; ++i) {
    const auto* const data = static_cast<const std::byte*>(pieces[i].iov_base);
    const std::size_t taken = std::min(left, pieces[i].iov_len);
    Tape::get().bytes.insert(Tape::get().bytes.end(), data, data + taken);
    left -= taken;
  }
}

}  // namespace

extern "C" {

ssize_t send(int descriptor, const void* data, size_t size, int flags) {
  static const auto next = tutti::test::next_function<ssize_t (*)(int, const void*, size_t, int)>("send");
  const ssize_t written = next(descriptor, data, size, flags);
  const iovec piece{const_cast<void*>(data), size};
  record(descriptor, &piece, 1, written);
  return written;
}

ssize_t write(int descriptor, const void* data, size_t size) {
  static const auto next = tutti::test::next_function<ssize_t (*)(int, const void*, size_t)>("write");
  const ssize_t written = next(descriptor, data, size);
  const iovec piece{const_cast<void*>(data), size};
  record(descriptor, &piece, 1, written);
  return written;
}

ssize_t sendmsg(int descriptor, const msghdr* message, int flags) {
  static const auto next = tutti::test::next_function<ssize_t (*)(int, const msghdr*, int)>("sendmsg");
  const ssize_t written = next(descriptor, message, flags);
  record(descriptor, message->msg_iov, message->msg_iovlen, written);
  return written;
}

ssize_t writev(int descriptor, const iovec* pieces, int count) {
  static const auto next = tutti::test::next_function<ssize_t (*)(int, const iovec*, int)>("writev");
  const ssize_t written = next(descriptor, pieces, count);
  record(descriptor, pieces, static_cast<std::size_t>(count), written);
  return written;
}

}  // extern "C"

namespace tutti::test {
namespace {

class Wiretap : public ::testing::Test {
 protected:
  void SetUp() override {
    Tape::get().bytes.clear();
    Tape::get().on = true;
  }
  void TearDown() override { Tape::get().on = false; }
  static std::vector<std::byte> tape() {
    const std::lock_guard lock(Tape::get().mutex);
    return Tape::get().bytes;
  }
  static std::size_t find(const std::vector<std::byte>& in, ByteView what, std::size_t from = 0) {
    const auto at = std::search(in.begin() + static_cast<std::ptrdiff_t>(from), in.end(), what.begin(), what.end());
    return at == in.end() ? SIZE_MAX : static_cast<std::size_t>(at - in.begin());
  }
  /// An id, and what it says.
  static void make_id(tuttiUniqueId* raw, UniqueId* id) {
    ASSERT_EQ(tuttiGetUniqueId(raw), tuttiSuccess);
    IdBytes bytes;
    std::memcpy(bytes.data(), raw->internal, bytes.size());
    ASSERT_TRUE(UniqueId::decode(bytes, id).ok());
  }
  /// No eight bytes of the secret stand anywhere on the tape.
  static void expect_absent(const std::vector<std::byte>& heard, const Key& secret) {
    for (std::size_t at = 0; at + 8 <= secret.size(); ++at)
      EXPECT_EQ(find(heard, ByteView(secret).subspan(at, 8)), SIZE_MAX) << "bytes " << at << " to " << at + 7;
  }
};

TEST_F(Wiretap, LearnsNoSecretOfASplit) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "tcp");
  const ScopedSetting clear("TUTTI_TLS", "off");
  run_threads(3, [](tuttiComm_t comm, int rank) {
    tuttiComm_t part = nullptr;
    ASSERT_EQ(tuttiCommSplit(comm, 0, -rank, &part, nullptr), tuttiSuccess) << tuttiGetLastError(comm);
    int sum = 1;
    EXPECT_EQ(tuttiAllReduce(&sum, &sum, 1, tuttiInt32, tuttiSum, part, nullptr), tuttiSuccess);
    EXPECT_EQ(sum, 3);
    if (rank == 0) {
      // The id is on the tape, with the nonce by which a rank of the parent, but nobody else, can tell the secret.
      const std::vector<std::byte> heard = tape();
      const std::size_t at = find(heard, bytes_of(std::string_view("tuttiid\1")));
      ASSERT_LT(at + sizeof(IdBytes), heard.size()) << "no id was heard: the case checks nothing";
      UniqueId shown;
      IdBytes bytes;
      std::copy_n(heard.begin() + static_cast<std::ptrdiff_t>(at), bytes.size(), bytes.begin());
      ASSERT_TRUE(UniqueId::decode(bytes, &shown).ok());
      EXPECT_EQ(shown.secret, Key{});
      Key secret;
      ASSERT_TRUE(comm->comm->membership().secret_of_child(shown.nonce, &secret).ok());
      expect_absent(heard, secret);
    }
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(part), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

TEST_F(Wiretap, LearnsNoSecretOfAJoin) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "tcp");
  const ScopedSetting clear("TUTTI_TLS", "off");
  tuttiUniqueId raw;
  UniqueId id;
  ASSERT_NO_FATAL_FAILURE(make_id(&raw, &id));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.emplace_back([&, rank] {
      tuttiComm_t comm = nullptr;
      ASSERT_EQ(tuttiCommInitRank(&comm, 3, raw, rank), tuttiSuccess) << tuttiGetLastError(nullptr);
      EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
      EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
    });
  for (std::thread& rank : ranks) rank.join();
  const std::vector<std::byte> heard = tape();
  EXPECT_FALSE(heard.empty());
  expect_absent(heard, id.secret);
}

/// A rank's own eight bytes, again and again: nobody else writes them.
constexpr std::uint64_t kSaid = 0x5a17c3d2e9b4f608;

class WiretapOfCalls : public Wiretap, public ::testing::WithParamInterface<const char*> {};

// The connections for data are cut between the calls, and made again, with another proof each time.
TEST_P(WiretapOfCalls, LearnsNoSecretOfAReconnectAndWithTlsNoData) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "tcp");
  const ScopedSetting secrecy("TUTTI_TLS", GetParam());
  const ScopedSetting patience("TUTTI_RECONNECT", "1000");
  const ScopedSetting quiet("TUTTI_LOG", "error");
  tuttiUniqueId raw;
  UniqueId id;
  ASSERT_NO_FATAL_FAILURE(make_id(&raw, &id));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      tuttiComm_t comm = nullptr;
      ASSERT_EQ(tuttiCommInitRank(&comm, 2, raw, rank), tuttiSuccess) << tuttiGetLastError(nullptr);
      for (int round = 0; round < 10; ++round) {
        std::vector<std::uint64_t> values(10'000, rank == 0 ? kSaid : 0);
        ASSERT_EQ(tuttiBroadcast(values.data(), values.data(), values.size(), tuttiUint64, 0, comm, nullptr),
                  tuttiSuccess)
            << tuttiGetLastError(comm);
        EXPECT_EQ(values.back(), kSaid);
        if (rank == 0) {
          EXPECT_GT(test::cut_connections(), 0) << "there was nothing to cut";
        }
      }
      EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess) << tuttiGetLastError(comm);
      EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
    });
  for (std::thread& rank : ranks) rank.join();
  const std::vector<std::byte> heard = tape();
  expect_absent(heard, id.secret);
  const bool is_heard = find(heard, std::as_bytes(std::span(&kSaid, 1))) != SIZE_MAX;
  EXPECT_EQ(is_heard, std::string_view(GetParam()) == "off") << "what rank 0 said";
}

INSTANTIATE_TEST_SUITE_P(Tls, WiretapOfCalls, ::testing::Values("off", "on"),
                         [](const auto& info) { return std::string(info.param); });

/// What somebody who knows the door's public key makes of a rank's question for the id: the id as it was given.
bool overhear_id(const std::vector<std::byte>& heard, const Key& door, UniqueId* id) {
  const auto find_from = [&](ByteView what, std::size_t from) {
    const auto at =
        std::search(heard.begin() + static_cast<std::ptrdiff_t>(from), heard.end(), what.begin(), what.end());
    return static_cast<std::size_t>(at - heard.begin());
  };
  const std::array<std::byte, 9> asks{std::byte{'t'}, std::byte{'u'}, std::byte{'t'}, std::byte{'t'}, std::byte{'i'},
                                      std::byte{'r'}, std::byte{'v'}, std::byte{1},   std::byte{3}};
  const std::size_t at = find_from(asks, 0);
  if (at + Handshake::kHelloSize > heard.size()) return false;
  const ByteView hello = ByteView(heard).subspan(at, Handshake::kHelloSize);
  Key server_key;
  bool challenged = false;
  for (std::size_t i = at + hello.size(); i + 64 <= heard.size() && !challenged; ++i) {
    const ByteView nonce = ByteView(heard).subspan(i, 32);
    Key mac;
    EXPECT_TRUE(hmac_sha256(door, {bytes_of("tutti server"), hello, nonce}, &mac).ok());
    challenged = equal_secret(mac, ByteView(heard).subspan(i + 32, 32));
    EXPECT_TRUE(hmac_sha256(door, {bytes_of("tutti key s2"), hello, nonce}, &server_key).ok());
  }
  const std::size_t given = find_from(bytes_of(std::string_view("tuttiid\1")), at);
  if (!challenged || given + sizeof(IdBytes) > heard.size()) return false;
  IdBytes bytes;
  std::copy_n(heard.begin() + static_cast<std::ptrdiff_t>(given), bytes.size(), bytes.begin());
  if (!UniqueId::decode(bytes, id).ok()) return false;
  Key mask;
  EXPECT_TRUE(hmac_sha256(server_key, {bytes_of("tutti id mask")}, &mask).ok());
  for (std::size_t i = 0; i < mask.size(); ++i) id->secret[i] ^= mask[i];
  return true;
}

// Without a secret file the key of the door is known to everybody: who only listens learns nothing all the same.
TEST_F(Wiretap, LearnsNoSecretAtAnOpenDoor) {
  const ScopedSetting clear("TUTTI_TLS", "off");
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const std::uint16_t port = free_port();
  const std::string url = "tcp://127.0.0.1:" + std::to_string(port);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      tuttiComm_t comm = nullptr;
      ASSERT_EQ(tuttiCommInitUrl(&comm, url.c_str(), 2, rank, nullptr), tuttiSuccess) << tuttiGetLastError(nullptr);
      EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
      if (rank == 0) {
        RendezvousKeys keys;
        ASSERT_TRUE(rendezvous_keys(Settings{}, port, "", &keys).ok());
        UniqueId id;
        ASSERT_TRUE(overhear_id(tape(), keys.secret, &id))
            << "no question for the id was heard: the case checks nothing";
        std::uint64_t told = 0;
        ASSERT_TRUE(id.comm_id(&told).ok());
        EXPECT_NE(told, comm->comm->membership().comm_id()) << "the listener has the secret";
      }
      EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
      EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
    });
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace
}  // namespace tutti::test
