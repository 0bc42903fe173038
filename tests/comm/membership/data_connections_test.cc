// Covers comm/membership/data_connections.cc, comm/membership/data_connector.cc, comm/membership/accepted_streams.cc.
// Streams between ranks: who dials, when both want, again after a loss, and who is turned away.
#include "comm/membership/data_connections.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <chrono>
#include <future>
#include <thread>

#include "comm/messages/unique_id.h"
#include "support/joining_processes.h"
#include "support/knocker.h"
#include "support/sanitized.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;
using test::expect;
using test::join_apart;
using test::JoiningProcesses;
using test::Knocker;
using test::SharedPage;

constexpr Lane kWiringLane{1};

/// Waits for a stream as an endpoint would.
bool wait_for_stream(TcpStreamSource& tcp_streams, Rank peer, Lane lane, TcpStream* stream) {
  return test::comes_true([&] { return tcp_streams.take(peer, lane, stream); });
}

bool can_read(const TcpStream& stream, int limit_ms) {
  pollfd wanted{stream.socket.get(), POLLIN, 0};
  return test::restarted([&] { return ::poll(&wanted, 1, limit_ms); }) == 1;
}

Status send_byte(const TcpStream& stream, char byte) {
  return expect(::send(stream.socket.get(), &byte, 1, MSG_NOSIGNAL) == 1, "nothing can be sent");
}

Status receive_byte(const TcpStream& stream, char byte) {
  if (!stream.leftover.empty())
    return expect(stream.leftover.size() == 1 && std::to_integer<char>(stream.leftover[0]) == byte, "another byte");
  char got = 0;
  TUTTI_TRY(expect(can_read(stream, 100'000), "nothing comes"));
  return expect(::recv(stream.socket.get(), &got, 1, 0) == 1 && got == byte, "another byte came");
}

Status talk(const TcpStream& stream, Rank self, Rank peer) {
  TUTTI_TRY(send_byte(stream, static_cast<char>('a' + self.value)));
  return receive_byte(stream, static_cast<char>('a' + peer.value));
}

/// All pairs, wanted by the lower, the higher or both of a pair.
Status meet_all(JoinResult& joined, int rank, int ranks, const std::function<bool(int self, int peer)>& asks) {
  for (int peer = 0; peer < ranks; ++peer)
    if (peer != rank && asks(rank, peer)) joined.tcp_streams->want(Rank{peer}, kWiringLane);
  for (int peer = 0; peer < ranks; ++peer) {
    TcpStream stream;
    if (peer == rank) continue;
    TUTTI_TRY(expect(wait_for_stream(*joined.tcp_streams, Rank{peer}, kWiringLane, &stream), "no stream came"));
    TUTTI_TRY(talk(stream, Rank{rank}, Rank{peer}));
  }
  // A stream may be taken before its arrival is told.
  const auto counted = [&] { return joined.tcp_streams->arrivals() >= static_cast<std::uint64_t>(ranks - 1); };
  return expect(test::comes_true(counted), "arrivals were not counted");
}

struct Who {
  const char* name;
  bool (*asks)(int self, int peer);
};

class WiringAsk : public testing::TestWithParam<Who> {};

Status meet_and_leave(int rank, int ranks, SharedPage& page, const Who& who) {
  JoinResult joined;
  TUTTI_TRY(join_apart(rank, ranks, page, &joined));
  TUTTI_TRY(meet_all(joined, rank, ranks, who.asks));
  page.mark(0);
  page.wait_for_mark(0, ranks);  // who leaves first would close the others' streams
  joined.membership->say_goodbye(0);
  return Status();
}

TEST_P(WiringAsk, ThreadsMeetOverRealSockets) {
  SharedPage page;
  test::run_threads(4, page, [](int rank, SharedPage& shared) { return meet_and_leave(rank, 4, shared, GetParam()); });
  test::expect_all_ok(page, 4);
}

TEST_P(WiringAsk, ProcessesMeet) {
  JoiningProcesses processes;
  processes.start_all(4, [](int rank, SharedPage& page) { return meet_and_leave(rank, 4, page, GetParam()); });
  processes.wait();
  test::expect_all_ok(processes.page(), 4);
}

INSTANTIATE_TEST_SUITE_P(Who, WiringAsk,
                         testing::Values(Who{"lower", [](int self, int peer) { return self < peer; }},
                                         Who{"higher", [](int self, int peer) { return self > peer; }},
                                         Who{"both", [](int, int) { return true; }}),
                         [](const auto& info) { return info.param.name; });

TEST(Wiring, CountsStreamsThatCameBeforeIt) {
  std::shared_ptr<Hub> hub;
  ASSERT_TRUE(Hub::acquire(Settings{}, &hub).ok());
  std::promise<std::uint64_t> arrivals;
  hub->loop().post([&] {
    const auto membership = hub->membership(KeyId{}, Key{});
    membership->connector().open(nullptr, {Rank{0}}, 1, false);
    TcpStream stream;
    stream.socket = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    membership->connector().accepted(Rank{0})->put(Rank{1}, kWiringLane, 1, std::move(stream));
    arrivals.set_value(DataConnections(hub, membership, Rank{0}).arrivals());
  });
  std::future<std::uint64_t> counted = arrivals.get_future();
  ASSERT_EQ(counted.wait_for(test::kPatience), std::future_status::ready);
  EXPECT_EQ(counted.get(), 1u);
}

TEST(Wiring, HostsAreCountedFromTheFirstRank) {
  SharedPage page;
  test::run_threads(4, page, [](int rank, SharedPage& shared) {
    IdBytes id;
    TUTTI_TRY(test::obtain_id(rank, shared, &id));
    JoinRequest request = test::request_for(rank, 4, id);
    request.settings.host_id = rank % 2 == 0 ? "even" : "odd";
    JoinResult joined;
    TUTTI_TRY(join(request, &joined));
    TUTTI_TRY(expect(joined.hosts == std::vector<int>{0, 1, 0, 1} && !joined.all_mapped, "other hosts"));
    for (int peer = 0; peer < 4; ++peer)
      TUTTI_TRY(expect((joined.segments.of(Rank{peer}) != nullptr) == (peer % 2 == rank % 2), "other segments"));
    joined.membership->say_goodbye(0);
    return Status();
  });
  test::expect_all_ok(page, 4);
}

TEST(Wiring, AStreamThatBrokeIsMadeAgain) {
  JoiningProcesses processes;
  processes.start_all(2, [](int rank, SharedPage& page) {
    JoinResult joined;
    TUTTI_TRY(join_apart(rank, 2, page, &joined));
    const Rank peer{1 - rank};
    for (int round = 0; round < 20; ++round) {
      TcpStream stream;
      const int asks = round % 3;  // the lower, the higher, both
      if (asks == 2 || asks == rank) joined.tcp_streams->want(peer, kWiringLane);
      TUTTI_TRY(expect(wait_for_stream(*joined.tcp_streams, peer, kWiringLane, &stream), "no stream came"));
      TUTTI_TRY(talk(stream, Rank{rank}, peer));
      page.mark(1);
      page.wait_for_mark(1, 2 * (round + 1));
      TUTTI_TRY(expect(!joined.tcp_streams->take(peer, kWiringLane, &stream), "one stream too many"));
      page.mark(2);
      page.wait_for_mark(2, 2 * (round + 1));
    }
    joined.membership->say_goodbye(0);
    return Status();
  });
  processes.wait();
  test::expect_all_ok(processes.page(), 2);
}

TEST(Wiring, AListenerHearsOfAStreamNobodyAskedFor) {
  SharedPage page;
  test::run_threads(2, page, [](int rank, SharedPage& shared) {
    JoinResult joined;
    TUTTI_TRY(join_apart(rank, 2, shared, &joined));
    std::atomic<int> calls{0};
    joined.tcp_streams->set_listener([&calls] { calls.fetch_add(1); });
    shared.mark(0);
    shared.wait_for_mark(0, 2);
    if (rank == 1) joined.tcp_streams->want(Rank{0}, kWiringLane);
    test::await([&] { return calls.load() != 0; }, "the listener's call");
    TcpStream stream;
    TUTTI_TRY(expect(joined.tcp_streams->take(Rank{1 - rank}, kWiringLane, &stream),
                     "it is not there when the listener is called"));
    joined.tcp_streams->set_listener({});
    shared.mark(1);
    shared.wait_for_mark(1, 2);
    joined.membership->say_goodbye(0);
    return expect(calls.load() == 1, "called once too often");
  });
  test::expect_all_ok(page, 2);
}

/// Two ranks in this process, and what somebody who stole the secret would know.
class WiringStranger : public testing::Test {
 protected:
  void SetUp() override {
    IdBytes bytes;
    ASSERT_TRUE(make_unique_id(Settings{}, &bytes).ok());
    UniqueId id;
    ASSERT_TRUE(UniqueId::decode(bytes, &id).ok());
    id_ = id.nonce;
    port_ = id.port;
    const auto join_one = [&](int rank) {
      JoinRequest request = test::request_for(rank, 2, bytes);
      status_[rank] = join(request, &joined_[rank]);
    };
    std::thread other([&] { join_one(1); });
    join_one(0);
    other.join();
    ASSERT_TRUE(status_[0].ok() && status_[1].ok()) << status_[0].text() << status_[1].text();
    std::shared_ptr<Hub> hub;
    ASSERT_TRUE(Hub::acquire(Settings{}, &hub).ok());
    process_ = hub->process();
    ASSERT_TRUE(hmac_sha256(id.secret, {bytes_of("tutti member"), process_}, &key_).ok());
    secret_ = id.secret;
  }
  void TearDown() override {
    // Whatever happened at the door: the ranks can still meet.
    joined_[0].tcp_streams->want(Rank{1}, kWiringLane);
    TcpStream low;
    TcpStream high;
    EXPECT_TRUE(wait_for_stream(*joined_[0].tcp_streams, Rank{1}, kWiringLane, &low));
    EXPECT_TRUE(wait_for_stream(*joined_[1].tcp_streams, Rank{0}, kWiringLane, &high));
    if (low.socket.valid() && high.socket.valid()) {
      EXPECT_TRUE(send_byte(low, 'x').ok() && receive_byte(high, 'x').ok());
    }
    EXPECT_EQ(joined_[0].membership->cause().code, Code::kOk);
    for (JoinResult& joined : joined_) joined.membership->say_goodbye(0);
  }
  DataConnectionMessage line() const { return DataConnectionMessage{process_, Rank{1}, Rank{0}, Lane{5}}; }

  KeyId id_{};
  Key key_{};
  Key secret_{};
  ProcessId process_{};
  std::uint16_t port_ = 0;
  JoinResult joined_[2];
  Status status_[2];
};

TEST_F(WiringStranger, TheRightWordsOpenALine) {  // or the tests below would pass for the wrong reason
  Knocker knocker(port_);
  ASSERT_TRUE(knocker.pass(Role::kData, id_, key_));
  knocker.say(MessageType::kOpenData, encode(line()));
  EXPECT_FALSE(knocker.receive(8 + 26 + 16).empty());
  TcpStream stream;
  EXPECT_TRUE(wait_for_stream(*joined_[0].tcp_streams, Rank{1}, Lane{5}, &stream));
}

TEST_F(WiringStranger, WrongSecretsAreTurnedAway) {
  EXPECT_FALSE(Knocker(port_).pass(Role::kData, id_, Key{}));
  EXPECT_FALSE(Knocker(port_).pass(Role::kData, id_, secret_)) << "the id's secret is not that of a door";
  EXPECT_FALSE(Knocker(port_).pass(Role::kData, KeyId{}, key_));
}

TEST_F(WiringStranger, AReplayedConversationOpensNothing) {
  Knocker first(port_);
  Handshake client = Handshake::client(Role::kData, id_, key_);
  std::vector<std::byte> hello;
  ASSERT_TRUE(client.start(&hello).ok());
  first.send(hello);
  std::vector<std::byte> proof;
  ASSERT_TRUE(client.consume(first.receive(Handshake::kChallengeSize), &proof).ok());
  first.send(proof);
  Knocker second(port_);
  second.send(hello);
  EXPECT_EQ(second.receive(Handshake::kChallengeSize).size(), Handshake::kChallengeSize);
  second.send(proof);
  EXPECT_TRUE(second.is_closed());
}

TEST_F(WiringStranger, AReplayedIntroductionOpensNothing) {
  Knocker first(port_);
  ASSERT_TRUE(first.pass(Role::kData, id_, key_));
  first.say(MessageType::kOpenData, encode(line()));
  EXPECT_FALSE(first.receive(8 + 26 + 16).empty());
  TcpStream stream;
  EXPECT_TRUE(wait_for_stream(*joined_[0].tcp_streams, Rank{1}, Lane{5}, &stream));
  Knocker second(port_);
  ASSERT_TRUE(second.pass(Role::kData, id_, key_));
  second.send(first.last());
  EXPECT_TRUE(second.is_closed());
  EXPECT_FALSE(joined_[0].tcp_streams->take(Rank{1}, Lane{5}, &stream));
}

TEST_F(WiringStranger, LinesThatMakeNoSenseAreClosed) {
  std::vector<DataConnectionMessage> bad(6, line());
  bad[0].to = Rank{1};  // to itself
  bad[1].to = Rank{7};
  bad[2].from = Rank{7};
  bad[3].from = Rank{-1};
  bad[4].process[0] ^= std::byte{1};  // of a process that rank 1 is not in
  bad[5].from = Rank{0};
  bad[5].to = Rank{1};  // the lower rank dials
  for (const DataConnectionMessage& message : bad) {
    Knocker knocker(port_);
    ASSERT_TRUE(knocker.pass(Role::kData, id_, key_));
    knocker.say(MessageType::kOpenData, encode(message));
    EXPECT_TRUE(knocker.is_closed());
  }
  Knocker lane(port_);
  ASSERT_TRUE(lane.pass(Role::kData, id_, key_));
  DataConnectionMessage far = line();
  far.lane = Lane{kMaxLanes};
  lane.say(MessageType::kOpenData, encode(far));
  EXPECT_TRUE(lane.is_closed());
  Knocker other(port_);
  ASSERT_TRUE(other.pass(Role::kData, id_, key_));
  other.say(MessageType::kIntroduce, encode(IntroduceMessage{process_}));
  EXPECT_TRUE(other.is_closed());
  Knocker noise(port_);
  ASSERT_TRUE(noise.pass(Role::kData, id_, key_));
  noise.send(std::vector<std::byte>(5000, std::byte{0x77}));
  EXPECT_TRUE(noise.is_closed());
}

/// Waits for a cause, and tells what it should have been if it is another.
Status expect_cause(const JoinResult& joined, Code code, Rank culprit, const std::vector<std::string>& parts) {
  FailureCause cause;
  (void)test::comes_true([&] { return (cause = joined.membership->cause()).code != Code::kOk; });
  bool right = cause.code == code && cause.culprit == culprit;
  for (const std::string& part : parts) right = right && cause.text.find(part) != std::string::npos;
  return right ? Status() : fail(Code::kInternalError, "culprit {}: {}", cause.culprit.value, cause.text);
}

/// The first of this process's TCP listeners; -1: it has none.
int find_listener() {
  for (int descriptor = 3; descriptor < 1024; ++descriptor) {
    int listens = 0;
    int family = 0;
    socklen_t size = sizeof(int);
    if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) continue;
    ::getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &family, &size);
    if (family != AF_UNIX) return descriptor;
  }
  return -1;
}

/// Puts something else in the place of this process's TCP listeners: its system refuses what comes.
int close_listeners() {
  int closed = 0;
  const Descriptor other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  for (int found = find_listener(); found >= 0 && ::dup2(other.get(), found) == found; found = find_listener())
    ++closed;
  return closed;
}

TEST(Wiring, WhoCannotBeReachedIsNamedWithTheAddresses) {
  JoiningProcesses processes;
  processes.start_all(2, [](int rank, SharedPage& page) {
    JoinResult joined;
    TUTTI_TRY(join_apart(rank, 2, page, &joined, 3.0));
    if (rank == 0) TUTTI_TRY(expect(close_listeners() == 1, "there is another number of listeners"));
    page.mark(0);
    page.wait_for_mark(0, 2);
    if (rank == 1) joined.tcp_streams->want(Rank{0}, kWiringLane);
    const Status right =
        expect_cause(joined, Code::kRemoteError, Rank{0}, {"rank 0 (process", "from rank 1", "Connection refused"});
    page.mark(1);
    page.wait_for_mark(1, 2);
    joined.membership->say_goodbye(0);
    return right;
  });
  processes.wait();
  test::expect_all_ok(processes.page(), 2);
}

// Rank 0 is stopped: its system takes connections, nobody answers. How long that may go on is not for the wiring to
// say.
TEST(TimedWiring, AStoppedProcessIsWaitedFor) {
  JoiningProcesses processes;
  processes.start_all(2, [](int rank, SharedPage& page) {
    JoinResult joined;
    TUTTI_TRY(join_apart(rank, 2, page, &joined, 0.5));
    page.mark(0);
    if (rank == 1) {
      page.wait_for_mark(1, 1);
      joined.tcp_streams->want(Rank{0}, kWiringLane);
      std::this_thread::sleep_for(milliseconds(2500));  // long after the patience
      const FailureCause cause = joined.membership->cause();
      page.mark(2);
      TUTTI_TRY(expect(cause.code == Code::kOk, "it did not wait: " + cause.text));
    }
    TcpStream stream;
    TUTTI_TRY(expect(wait_for_stream(*joined.tcp_streams, Rank{1 - rank}, kWiringLane, &stream), "no stream came"));
    TUTTI_TRY(talk(stream, Rank{rank}, Rank{1 - rank}));
    page.mark(3);
    page.wait_for_mark(3, 2);
    joined.membership->say_goodbye(0);
    return Status();
  });
  ASSERT_TRUE(processes.page().wait_for_mark(0, 2));
  test::stop_process(processes.pid(0));
  processes.page().mark(1);
  processes.page().wait_for_mark(2, 1);
  ::kill(processes.pid(0), SIGCONT);
  processes.wait();
  test::expect_all_ok(processes.page(), 2);
}

/// Takes the connections that come to this process's TCP listener in the hub's place, and closes them after a while.
/// Sets mark 1 once it does.
Status close_late(SharedPage& page, milliseconds pause) {
  const int own = find_listener();
  TUTTI_TRY(expect(own >= 0, "there is no listener"));
  const Descriptor listener(::fcntl(own, F_DUPFD_CLOEXEC, 0));
  const Descriptor other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  TUTTI_TRY(expect(::dup2(other.get(), own) == own, "the listener stays the hub's"));
  page.mark(1);
  std::vector<Descriptor> taken;
  for (const auto end = Clock::now() + pause; Clock::now() < end; std::this_thread::sleep_for(milliseconds(1)))
    if (Descriptor next(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)); next.valid())
      taken.push_back(std::move(next));
  TUTTI_TRY(expect(::dup2(listener.get(), own) == own, "the hub's listener is lost"));
  return expect(!taken.empty(), "nobody came");
}

// Rank 0 closes the first connection after the timeout, as it does if the process of rank 1 had no core for long.
// Nothing is wrong with either, so the next try is to succeed.
TEST(TimedWiring, ATryThatEndsLateIsNotTheLast) {
  JoiningProcesses processes;
  processes.start_all(2, [](int rank, SharedPage& page) {
    JoinResult joined;
    TUTTI_TRY(join_apart(rank, 2, page, &joined, 0.3));
    page.mark(0);
    page.wait_for_mark(0, 2);
    if (rank == 0) TUTTI_TRY(close_late(page, milliseconds(700)));
    if (rank == 1) {
      page.wait_for_mark(1, 1);
      joined.tcp_streams->want(Rank{0}, kWiringLane);
    }
    TcpStream stream;
    const bool came = test::comes_true([&] {
      return joined.tcp_streams->take(Rank{1 - rank}, kWiringLane, &stream) ||
             joined.membership->cause().code != Code::kOk;
    });
    TUTTI_TRY(expect(came && stream.socket.valid(), "it gave up: " + joined.membership->cause().text));
    TUTTI_TRY(talk(stream, Rank{rank}, Rank{1 - rank}));
    page.mark(2);
    page.wait_for_mark(2, 2);
    joined.membership->say_goodbye(0);
    return Status();
  });
  processes.wait();
  test::expect_all_ok(processes.page(), 2);
}

TEST(Wiring, WhoHasNoDescriptorsLeftIsToBlameItself) {
  if (tutti::test::kSanitized) GTEST_SKIP() << "the sanitizers need descriptors of their own";
  JoiningProcesses processes;
  processes.start_all(2, [](int rank, SharedPage& page) {
    JoinResult joined;
    TUTTI_TRY(join_apart(rank, 2, page, &joined, 0.2));
    page.mark(0);
    page.wait_for_mark(0, 2);
    if (rank == 1) {
      const rlimit none{3, 3};  // what is open stays
      TUTTI_TRY(expect(::setrlimit(RLIMIT_NOFILE, &none) == 0, "no limit"));
      joined.tcp_streams->want(Rank{0}, kWiringLane);
    }
    const Status right = expect_cause(joined, Code::kSystemError, Rank{1}, {"Too many open files"});
    page.mark(1);
    page.wait_for_mark(1, 2);
    joined.membership->say_goodbye(0);
    return right;
  });
  processes.wait();
  test::expect_all_ok(processes.page(), 2);
}

}  // namespace
}  // namespace tutti
