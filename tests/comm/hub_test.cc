// The hub as a resident: strangers at its door, forks, and what is left after many joins.
#include "comm/membership/hub.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <new>
#include <thread>
#include <vector>

#include "comm/join/join_with.h"
#include "comm/knocker.h"
#include "comm/membership/unique_id.h"
#include "comm/world.h"
#include "support/sanitized.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;
using test::SharedPage;

std::size_t entries_in(const char* directory) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory)) ++count;
  return count;
}

std::size_t resident_kilobytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  file >> total >> resident;
  return resident * 4;
}

// In a process of their own: they count its threads, descriptors and memory.
TEST(AloneHub, ManyRoundsLeaveNothing) {
  const auto round = [] {
    SharedPage* const page = SharedPage::map();
    test::run_threads(2, *page, [](int rank, SharedPage& shared) {
      JoinResult joined;
      TUTTI_TRY(test::join_by_page(rank, 2, shared, &joined));
      joined.membership->say_goodbye(0);
      return Status();
    });
    EXPECT_TRUE(page->code(0) == Code::kOk && page->code(1) == Code::kOk) << page->text(0) << page->text(1);
    ::munmap(page, sizeof(SharedPage));
  };
  for (int i = 0; i < 20; ++i) round();
  ASSERT_TRUE(wait_for_no_hub(test::kPatience));
  const std::size_t descriptors = entries_in("/proc/self/fd");
  const std::size_t threads = entries_in("/proc/self/task");
  const std::size_t memory = resident_kilobytes();
  for (int i = 0; i < 200; ++i) round();
  ASSERT_TRUE(wait_for_no_hub(test::kPatience));
  EXPECT_EQ(entries_in("/proc/self/fd"), descriptors);
  EXPECT_EQ(entries_in("/proc/self/task"), threads);
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
  const std::size_t descriptors = entries_in("/proc/self/fd");
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(make_unique_id(Settings{}, &id).ok());
    JoinResult joined;
    ASSERT_TRUE(join(test::request_for(0, 1, id), &joined).ok());
    joined.membership->say_goodbye(0);
  }
  test::await([&] { return entries_in("/proc/self/fd") <= descriptors; }, "the ends of connections");
  EXPECT_EQ(entries_in("/proc/self/fd"), descriptors);
}

IpAddress loopback(unsigned last) {
  IpAddress address;
  address.bytes = {std::byte{127}, std::byte{0}, std::byte{0}, static_cast<std::byte>(last)};
  return address;
}

/// A TCP connection to the hub of this process, from 127.0.0.`from` to 127.0.0.`to`.
Descriptor knock(std::uint16_t port, unsigned from = 1, unsigned to = 1) {
  const SocketAddress at = socket_address(loopback(to), port);
  const SocketAddress own = socket_address(loopback(from), 0);
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&own.data), own.size), 0) << errno_text();
  const timeval limit{100, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&at.data), at.size), 0) << errno_text();
  return socket;
}

/// As far as it can be seen without waiting, whatever is still unread.
bool is_closed_now(const Descriptor& socket) {
  pollfd end{socket.get(), POLLRDHUP, 0};
  return ::poll(&end, 1, 0) == 1 && end.revents != 0;
}

bool is_closed_by_the_other_end(const Descriptor& socket) {
  char byte = 0;
  return test::restarted([&] { return ::recv(socket.get(), &byte, 1, 0); }) <= 0 && errno != EAGAIN;
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
  SharedPage* const page = SharedPage::map();
  std::thread first([&] {
    JoinResult joined;
    page->report(0, join(test::request_for(0, 2, bytes), &joined));
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
  EXPECT_EQ(page->code(0), Code::kOk) << page->text(0);
}

TEST(Hub, ACrowdOfStrangersDoesNotKeepRanksOut) {
  IdBytes bytes;
  ASSERT_TRUE(make_unique_id(Settings{}, &bytes).ok());
  UniqueId id;
  ASSERT_TRUE(UniqueId::decode(bytes, &id).ok());
  std::vector<Descriptor> crowd;
  std::shared_ptr<Hub> hub;
  ASSERT_TRUE(Hub::acquire(Settings{}, &hub).ok());
  for (std::size_t i = 0; i < hub->pending().most() + 50; ++i) crowd.push_back(knock(id.port));
  JoinResult joined;
  const Status status = join(test::request_for(0, 1, bytes), &joined);
  EXPECT_TRUE(status.ok()) << status.text();
  test::await([&] { return std::count_if(crowd.begin(), crowd.end(), is_closed_now) >= 50; }, "the ends of some");
  joined.membership->say_goodbye(0);
}

/// An id that is served for a scope.
class Served {
 public:
  explicit Served(const Settings& settings = {}) : settings_(settings) {
    EXPECT_TRUE(make_unique_id(settings, &bytes_).ok());
    EXPECT_TRUE(UniqueId::decode(bytes_, &id_).ok());
    EXPECT_TRUE(Hub::acquire(settings, &hub_).ok());
  }
  ~Served() { withdraw_unique_id(settings_, bytes_); }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;
  const IdBytes& bytes() const { return bytes_; }
  const UniqueId& id() const { return id_; }
  std::ptrdiff_t most_pending() const { return static_cast<std::ptrdiff_t>(hub_->pending().most()); }

 private:
  const Settings settings_;
  IdBytes bytes_{};
  UniqueId id_;
  std::shared_ptr<Hub> hub_;
};

/// Says what for it comes, as whoever has seen the id's nonce can, and goes no further.
Descriptor begin_handshake(const UniqueId& id, unsigned from) {
  Handshake client = Handshake::client(Role::kJoin, id.nonce, id.secret);
  std::vector<std::byte> hello;
  EXPECT_TRUE(client.start(&hello).ok());
  Descriptor socket = knock(id.port, from);
  EXPECT_EQ(::send(socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL), static_cast<ssize_t>(hello.size()));
  return socket;
}

bool is_challenged(const Descriptor& socket) {
  std::array<std::byte, Handshake::kChallengeSize> challenge;
  return test::restarted([&] { return ::recv(socket.get(), challenge.data(), challenge.size(), MSG_WAITALL); }) ==
         static_cast<ssize_t>(challenge.size());
}

TEST(Hub, ACrowdFromOneAddressPushesItselfOut) {
  const Served served;
  std::vector<Descriptor> few;
  for (unsigned from = 2; from < 12; ++from) {
    few.push_back(begin_handshake(served.id(), from));
    EXPECT_TRUE(is_challenged(few.back()));
  }
  std::vector<Descriptor> crowd;
  const std::ptrdiff_t many = served.most_pending() + 100;
  for (std::ptrdiff_t i = 0; i < many; ++i) {
    crowd.push_back(begin_handshake(served.id(), 1));
    if (i % 16 == 0) (void)is_challenged(crowd.back());  // it keeps pace
  }
  test::await([&] { return std::count_if(crowd.begin(), crowd.end(), is_closed_now) >= 100; }, "the ends of some");
  EXPECT_EQ(std::count_if(few.begin(), few.end(), is_closed_now), 0) << "of those from other addresses";
}

TEST(Hub, WhoSaysNothingIsDroppedBeforeWhoDoes) {
  const Served served;
  std::vector<Descriptor> talkers;
  for (int i = 0; i < 16; ++i) {
    talkers.push_back(begin_handshake(served.id(), 1));
    EXPECT_TRUE(is_challenged(talkers.back()));
  }
  std::vector<Descriptor> silent;
  for (std::ptrdiff_t i = 0; i < served.most_pending() + 100; ++i) silent.push_back(knock(served.id().port));
  test::await([&] { return std::count_if(silent.begin(), silent.end(), is_closed_now) >= 100; }, "the ends of some");
  EXPECT_EQ(std::count_if(talkers.begin(), talkers.end(), is_closed_now), 0);
}

TEST(Hub, WhoHasProvedItselfAndSaysNothingIsClosed) {
  const Served served;
  test::Knocker silent(served.id().port);
  ASSERT_TRUE(silent.pass(Role::kJoin, served.id().nonce, served.id().secret));
  EXPECT_TRUE(silent.is_closed()) << "within the 100 s that it waits";
}

// All ranks are here and no id is served any more: nobody is expected from elsewhere.
TEST(Hub, NobodyIsLetInWhereNobodyIsExpected) {
  ASSERT_TRUE(wait_for_no_hub(test::kPatience));
  const Served served;
  const Descriptor early = begin_handshake(served.id(), 2);
  EXPECT_TRUE(is_challenged(early));
  JoinResult joined;
  ASSERT_TRUE(join(test::request_for(0, 1, served.bytes()), &joined).ok());
  EXPECT_TRUE(test::comes_true([&] {  // the join's own connection ends a moment later
    const Descriptor late = knock(served.id().port, 2);
    std::this_thread::sleep_for(milliseconds(20));
    return is_closed_now(late);
  }));
  joined.membership->say_goodbye(0);
}

TEST(Hub, OtherInterfacesThanTheChosenOnesAreClosed) {
  ASSERT_TRUE(wait_for_no_hub(test::kPatience));
  Settings settings;
  settings.socket_interface = "=lo";
  const Served served(settings);
  EXPECT_TRUE(is_challenged(begin_handshake(served.id(), 1)));
  EXPECT_TRUE(is_closed_by_the_other_end(knock(served.id().port, 1, 2))) << "127.0.0.2 is not an address of the id";
}

/// Memory can run out in the service thread as anywhere: what was left undone there ends the communicators that rest on
/// it, not the process.
TEST(Hub, AnExceptionInTheServiceThreadBecomesACause) {
  IdBytes bytes;
  ASSERT_TRUE(make_unique_id(Settings{}, &bytes).ok());
  SharedPage* const page = SharedPage::map();
  test::run_threads(2, *page, [&](int rank, SharedPage& shared) {
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
    EXPECT_EQ(page->code(rank), Code::kSystemError);
    EXPECT_NE(page->text(rank).find("out of memory"), std::string::npos) << page->text(rank);
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
