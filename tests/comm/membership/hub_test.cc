// Covers comm/membership/hub.cc.
// The hub as a resident: strangers at its door, forks, and what is left after many joins.
#include "comm/membership/hub.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <thread>
#include <vector>

#include "comm/join/join.h"
#include "comm/messages/unique_id.h"
#include "net/crypto.h"
#include "support/joining_processes.h"
#include "support/knocker.h"
#include "support/process_usage.h"
#include "support/sanitized.h"
#include "support/served.h"
#include "support/yardstick.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;
using test::is_closed_by_the_other_end;
using test::knock;
using test::open_descriptors;
using test::resident_kilobytes;
using test::Served;
using test::SharedPage;

// In a process of their own: they count its threads, descriptors and memory.
TEST(AloneHub, ManyRoundsLeaveNothing) {
  const auto round = [] {
    SharedPage page;
    test::run_threads(2, page, [](int rank, SharedPage& shared) {
      JoinResult joined;
      TUTTI_TRY(test::join_by_page(rank, 2, shared, &joined));
      joined.membership->say_goodbye(0);
      return Status();
    });
    EXPECT_TRUE(page.code(0) == Code::kOk && page.code(1) == Code::kOk) << page.text(0) << page.text(1);
  };
  for (int i = 0; i < 20; ++i) round();
  ASSERT_TRUE(wait_for_no_hub(test::kPatience));
  const std::size_t descriptors = open_descriptors();
  const std::size_t threads = test::count_threads();
  const long memory = resident_kilobytes();
  for (int i = 0; i < 200; ++i) round();
  ASSERT_TRUE(wait_for_no_hub(test::kPatience));
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(test::count_threads(), threads);
  if (!test::kSanitized) {  // sanitizers keep freed memory
    EXPECT_LT(resident_kilobytes(), memory + 1024);
  }
}

TEST(AloneHub, ALivingCommunicatorKeepsItAndTheNextOnesShareIt) {
  IdBytes id;
  ASSERT_TRUE(make_unique_id(Settings{}, &id).ok());
  JoinResult kept;
  ASSERT_TRUE(join(test::request_for(0, 1, id), &kept).ok());
  std::shared_ptr<Hub> hub;
  ASSERT_TRUE(Hub::acquire(Settings{}, &hub).ok());
  // The ends of the join's own connections are events of this hub's loop: after some rounds of it nothing is left.
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(hub->loop().call([] {}, test::kPatience));
  const std::size_t descriptors = open_descriptors();
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(make_unique_id(Settings{}, &id).ok());
    JoinResult joined;
    ASSERT_TRUE(join(test::request_for(0, 1, id), &joined).ok());
    joined.membership->say_goodbye(0);
  }
  test::await([&] { return open_descriptors() <= descriptors; }, "the ends of connections");
  EXPECT_EQ(open_descriptors(), descriptors);
}

void expect_http_is_refused(std::uint16_t port) {
  const Descriptor browser = knock(port);
  const std::string http =
      "GET / HTTP/1.1\r\nHost: example.org\r\nUser-Agent: something long enough to fill it\r\n\r\n";
  ASSERT_GT(::send(browser.get(), http.data(), http.size(), MSG_NOSIGNAL), 0);
  EXPECT_TRUE(is_closed_by_the_other_end(browser));
}

void expect_noise_is_refused(std::uint16_t port) {
  const Descriptor noise = knock(port);
  const std::vector<char> zeros(100000, 0);
  ::send(noise.get(), zeros.data(), zeros.size(), MSG_NOSIGNAL);
  EXPECT_TRUE(is_closed_by_the_other_end(noise));
}

/// Knows the id's public name, not its secret, and reflects the server's own proof.
void expect_an_impostor_is_refused(std::uint16_t port, const KeyId& name) {
  Handshake impostor = Handshake::client(Role::kJoin, name, Key{});
  std::vector<std::byte> hello;
  ASSERT_TRUE(impostor.start(&hello).ok());
  const Descriptor guess = knock(port);
  ASSERT_EQ(::send(guess.get(), hello.data(), hello.size(), MSG_NOSIGNAL), static_cast<ssize_t>(hello.size()));
  std::array<std::byte, Handshake::kChallengeSize> challenge;
  const auto receive = [&] { return ::recv(guess.get(), challenge.data(), challenge.size(), MSG_WAITALL); };
  ASSERT_EQ(test::restarted(receive), static_cast<ssize_t>(challenge.size()));
  ASSERT_EQ(::send(guess.get(), challenge.data() + 32, 32, MSG_NOSIGNAL), 32);
  EXPECT_TRUE(is_closed_by_the_other_end(guess));
}

/// Two ends of a connection over a unix socket, open.
struct Ends {
  std::shared_ptr<Connection> ours;
  std::shared_ptr<Connection> theirs;
  std::atomic<int> open{0};
  std::atomic<int> closed{0};  // of ours
};

void connect_ends(Hub& hub, Ends* ends) {
  UnixSocket sockets[2];
  ASSERT_TRUE(UnixSocket::pair(&sockets[0], &sockets[1]).ok());
  const auto opened = [ends](const std::shared_ptr<Connection>&) { ends->open.fetch_add(1); };
  const auto closed = [ends](const Status&) { ends->closed.fetch_add(1); };
  const auto known = [](Role, const KeyId&, Key* secret) { return *secret = Key{}, true; };
  Status status;
  const auto start = [&] {
    status = Connection::start(hub.loop(), Socket(std::move(sockets[0])), Handshake::server(known),
                               ConnectionEvents{opened, {}, {}}, &ends->theirs);
    if (status.ok())
      status = Connection::start(hub.loop(), Socket(std::move(sockets[1])),
                                 Handshake::client(Role::kControl, KeyId{}, Key{}),
                                 ConnectionEvents{opened, {}, closed}, &ends->ours);
  };
  ASSERT_TRUE(hub.loop().call(start, test::kPatience));
  ASSERT_TRUE(status.ok()) << status.text();
  ASSERT_TRUE(test::comes_true([&] { return ends->open.load() == 2; }));
}

// The socket itself is well, so that the loop hears of nothing.
TEST(Hub, AConnectionThatCannotSendEnds) {
  std::shared_ptr<Hub> hub;
  ASSERT_TRUE(Hub::acquire(Settings{}, &hub).ok());
  Ends ends;
  connect_ends(*hub, &ends);
  ASSERT_TRUE(ends.ours);
  EXPECT_TRUE(ends.ours->send(MessageType::kLinked, {}));
  const int no_descriptor = 1'000'000;
  EXPECT_FALSE(ends.ours->send(MessageType::kSegment, encode(SegmentMessage{1}), no_descriptor));
  EXPECT_TRUE(test::comes_true([&] { return ends.closed.load() == 1; })) << "nobody is told that it is of no use";
  const auto end = [&] {
    ends.ours->close();
    ends.theirs->close();
  };
  EXPECT_TRUE(hub->loop().call(end, test::kPatience));
}

// A process that comes before the table may lose its connection while it waits for that, and then makes another.
TEST(Hub, AnEarlyProcessMayComeAgain) {
  IdBytes bytes;
  ASSERT_TRUE(make_unique_id(Settings{}, &bytes).ok());
  UniqueId id;
  ASSERT_TRUE(UniqueId::decode(bytes, &id).ok());
  std::shared_ptr<Hub> hub;
  ASSERT_TRUE(Hub::acquire(Settings{}, &hub).ok());
  Key key;
  ASSERT_TRUE(hmac_sha256(id.secret, {bytes_of("tutti member"), hub->process()}, &key).ok());
  JoinResult joined[2];
  Status status[2];
  std::thread waits([&] { status[0] = join(test::request_for(0, 2, bytes), &joined[0]); });
  ProcessId process{};
  process[0] = std::byte{9};
  const auto introduce = [&](test::Knocker& knocker) {
    if (!knocker.pass(Role::kControl, id.nonce, key)) return false;
    knocker.say(MessageType::kIntroduce, encode(IntroduceMessage{process}));
    return true;
  };
  EXPECT_TRUE(test::comes_true([&] {  // until rank 0 is there
    test::Knocker lost(id.port);
    return introduce(lost);
  }));
  test::Knocker again(id.port);
  EXPECT_TRUE(introduce(again));
  EXPECT_TRUE(again.hears_nothing_for(milliseconds(300))) << "it was turned away";
  status[1] = join(test::request_for(1, 2, bytes), &joined[1]);
  waits.join();
  EXPECT_TRUE(again.is_closed()) << "the table does not have it";
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(status[rank].ok()) << status[rank].text();
    if (joined[rank].membership) joined[rank].membership->say_goodbye(0);
  }
}

TEST(Hub, StrangersAreTurnedAwayWhileAJoinGoesOn) {
  IdBytes bytes;
  ASSERT_TRUE(make_unique_id(Settings{}, &bytes).ok());
  UniqueId id;
  ASSERT_TRUE(UniqueId::decode(bytes, &id).ok());
  SharedPage page;
  std::thread first([&] {
    JoinResult joined;
    page.report(0, join(test::request_for(0, 2, bytes), &joined));
    if (joined.membership) joined.membership->say_goodbye(0);
  });
  expect_http_is_refused(id.port);
  expect_noise_is_refused(id.port);
  expect_an_impostor_is_refused(id.port, id.nonce);
  const Descriptor silent = knock(id.port);  // says nothing and is in nobody's way
  JoinResult joined;
  const Status status = join(test::request_for(1, 2, bytes), &joined);
  EXPECT_TRUE(status.ok()) << status.text();
  if (joined.membership) joined.membership->say_goodbye(0);
  first.join();
  EXPECT_EQ(page.code(0), Code::kOk) << page.text(0);
}

/// Memory can run out in the service thread as anywhere: what was left undone there ends the communicators that rest on
/// it, not the process.
TEST(Hub, AnExceptionInTheServiceThreadBecomesACause) {
  IdBytes bytes;
  ASSERT_TRUE(make_unique_id(Settings{}, &bytes).ok());
  SharedPage page;
  test::run_threads(2, page, [&](int rank, SharedPage& shared) {
    JoinResult joined;
    TUTTI_TRY(join(test::request_for(rank, 2, bytes), &joined));
    std::shared_ptr<Hub> hub;
    TUTTI_TRY(Hub::acquire(Settings{}, &hub));
    shared.mark(0);
    shared.wait_for_mark(0, 2);
    if (rank == 0) hub->loop().post([] { throw std::bad_alloc(); });
    test::await([&] { return joined.membership->cause().code != Code::kOk; }, "the cause");
    const FailureCause cause = joined.membership->cause();
    return fail(cause.code, "{}", cause.text);
  });
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(page.code(rank), Code::kSystemError);
    EXPECT_NE(page.text(rank).find("out of memory"), std::string::npos) << page.text(rank);
  }
  const Served next;  // the thread is still there
}

TEST(Hub, AnExceptionInTheServiceThreadEndsAJoin) {
  IdBytes bytes;
  ASSERT_TRUE(make_unique_id(Settings{}, &bytes).ok());
  std::shared_ptr<Hub> hub;
  ASSERT_TRUE(Hub::acquire(Settings{}, &hub).ok());
  std::atomic<bool> ended{false};
  Status status;
  std::thread joiner([&] {
    JoinResult joined;
    status = join(test::request_for(0, 2, bytes), &joined);
    ended = true;
  });
  test::await(
      [&] {
        hub->loop().post([] { throw 1; });  // not of a type that anybody knows
        return ended.load();
      },
      "the end of the join");
  joiner.join();
  EXPECT_EQ(status.code(), Code::kSystemError) << status.text();
  EXPECT_NE(status.text().find("an exception"), std::string::npos) << status.text();
}

// Whatever keeps the service thread from its work, the process ends: peers see a death then, but no rank waits for it.
TEST(TimedHub, AnExitDoesNotWaitForAServiceThreadThatIsHeld) {
  ASSERT_TRUE(wait_for_no_hub(test::kPatience));
  const test::SharedMemory<SharedPage> page;
  test::RankProcesses processes;
  processes.start([&page] {
    IdBytes id;
    JoinResult joined;
    std::shared_ptr<Hub> hub;
    if (!make_unique_id(Settings{}, &id).ok() || !join(test::request_for(0, 1, id), &joined).ok() ||
        !Hub::acquire(Settings{}, &hub).ok())
      ::_exit(1);
    std::atomic<bool> held{false};
    hub->loop().post([&held] {
      held = true;
      test::await_kill();
    });
    test::await_or_exit([&held] { return held.load(); }, "the service thread");
    page->mark(0);
    std::exit(0);
  });
  page->wait_for_mark(0, 1);
  test::Yardstick yardstick;
  const Clock::time_point began = Clock::now();
  EXPECT_EQ(processes.wait(0), 0);
  EXPECT_EQ(yardstick.judge(1.5, Clock::now() - began), "") << "0.1 s for goodbyes, 1 s for the thread";
}

// The exit handlers of others take as long as they take, and the service thread may still be at work meanwhile.
TEST(AloneHub, AServiceThreadThatIsBusyDuringTheExitMayUseLibcrypto) {
  const pid_t child = ::fork();
  if (child == 0) {
    // What is installed first runs last.
    if (std::atexit([] { std::this_thread::sleep_for(std::chrono::milliseconds(200)); }) != 0) ::_exit(1);
    IdBytes id;
    JoinResult joined;
    std::shared_ptr<Hub> hub;
    if (!make_unique_id(Settings{}, &id).ok() || !join(test::request_for(0, 1, id), &joined).ok() ||
        !Hub::acquire(Settings{}, &hub).ok())
      ::_exit(1);
    std::atomic<bool> busy{false};
    hub->loop().post([&busy] {
      Key mac;
      while (hmac_sha256(Key{}, {bytes_of("busy")}, &mac).ok()) busy = true;
      ::_exit(2);
    });
    test::await_or_exit([&busy] { return busy.load(); }, "the service thread");
    std::exit(0);
  }
  EXPECT_EQ(test::await_end(child), 0);
}

/// A child has copies of what only the stack of the parent's service thread pointed to: to a leak checker these are
/// leaks.
[[noreturn]] void end_child(int result) {
  if (test::kAddressSanitized) ::_exit(result);
  std::exit(result);
}

TEST(Hub, AForkedChildOfACommunicatorsOwnerIsRefused) {
  if (test::kThreadSanitized) GTEST_SKIP() << "it does not support threads in a child of a process with threads";
  IdBytes id;
  ASSERT_TRUE(make_unique_id(Settings{}, &id).ok());
  JoinResult joined;
  ASSERT_TRUE(join(test::request_for(0, 1, id), &joined).ok());
  const pid_t child = ::fork();
  if (child == 0) {
    IdBytes other;
    const bool refused = hub_forked() && make_unique_id(Settings{}, &other).code() == Code::kInvalidUsage;
    joined.membership->say_goodbye(1);
    joined.membership.reset();  // must not touch what is the parent's
    end_child(refused ? 0 : 1);
  }
  EXPECT_EQ(test::await_end(child), 0);
  EXPECT_FALSE(hub_forked());
  EXPECT_EQ(joined.membership->liveness(Rank{0}), Liveness::kAlive);
  joined.membership->say_goodbye(0);
}

TEST(Hub, AChildOfAProcessThatOnlyServesIdsMayJoin) {
  if (test::kSanitized) GTEST_SKIP() << "a fork may leave the sanitizer's own allocator locked by the service thread";
  IdBytes id;
  ASSERT_TRUE(make_unique_id(Settings{}, &id).ok());
  std::vector<pid_t> children;
  for (int rank = 0; rank < 3; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      JoinResult joined;
      const Status status = join(test::request_for(rank, 3, id), &joined);
      if (status.ok()) joined.membership->say_goodbye(0);
      end_child(status.ok() ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) EXPECT_EQ(test::await_end(child), 0);
}

}  // namespace
}  // namespace tutti
