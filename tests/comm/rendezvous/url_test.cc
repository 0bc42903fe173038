// Covers comm/rendezvous/*url*.cc, comm/rendezvous/tcp_rendezvous.cc.
#include "comm/rendezvous/url.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "comm/messages/unique_id.h"
#include "comm/rendezvous/file_rendezvous.h"
#include "comm/rendezvous/join_url.h"
#include "comm/rendezvous/tcp_rendezvous.h"
#include "comm/rendezvous/url_service.h"
#include "net/dialer.h"
#include "net/socket.h"
#include "support/joining_processes.h"
#include "support/next_function.h"
#include "support/ports.h"
#include "support/temporary_directory.h"

namespace {

/// How often the name "late.tutti.invalid" is still unknown; then it is this host's.
std::atomic<int> unknown_lookups{0};

}  // namespace

/// In place of the C library's, for that name.
extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints, addrinfo** list) {
  static const auto original = tutti::test::next_function<decltype(&getaddrinfo)>("getaddrinfo");
  const bool late = host != nullptr && std::string_view(host) == "late.tutti.invalid";
  if (late && unknown_lookups.fetch_sub(1) > 0) return EAI_NONAME;
  return original(late ? "127.0.0.1" : host, service, hints, list);
}

namespace tutti {
namespace {

using test::expect_all_ok;
using test::free_port;
using test::JoiningProcesses;
using test::listen_at;
using test::SharedPage;
using test::TemporaryDirectory;

bool can_bind(std::uint16_t port) {
  IpAddress any;
  SocketAddress at = socket_address(any, port);
  const Descriptor probe(::socket(AF_INET, SOCK_STREAM, 0));
  const int on = 1;
  ::setsockopt(probe.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  return ::bind(probe.get(), reinterpret_cast<const sockaddr*>(&at.data), at.size) == 0 &&
         ::listen(probe.get(), 1) == 0;
}

Status join_by(const std::string& url, int rank, int ranks, double seconds = test::kFarSeconds,
               const Settings& settings = {}) {
  JoinRequest request = test::request_for(rank, ranks, IdBytes{}, seconds);
  request.settings = settings;
  JoinResult joined;
  TUTTI_TRY(join_url(url, request, &joined));
  if (joined.membership->ranks() != ranks || !joined.all_mapped) return fail(Code::kInternalError, "a strange result");
  joined.membership->say_goodbye(0);
  return {};
}

TEST(Url, IsTakenApart) {
  RendezvousUrl url;
  ASSERT_TRUE(parse_url("tcp://node-1:4711", &url).ok());
  EXPECT_EQ(url.scheme, UrlScheme::kTcp);
  EXPECT_EQ(url.host, "node-1");
  EXPECT_EQ(url.port, 4711);
  ASSERT_TRUE(parse_url("tcp://[fd00::2]:1", &url).ok());
  EXPECT_EQ(url.host, "fd00::2");
  ASSERT_TRUE(parse_url("file:///tmp/x y", &url).ok());
  EXPECT_EQ(url.path, "/tmp/x y");
  ASSERT_TRUE(parse_url("env://", &url).ok());
  EXPECT_EQ(url.scheme, UrlScheme::kEnv);
}

TEST(Url, NonsenseIsRefusedWithTheUrlInTheText) {
  for (const char* text : {"", "env", "env://x", "tcp://", "tcp://host", "tcp://host:", "tcp://host:0",
                           "tcp://host:65536", "tcp://host:12x", "tcp://:12", "tcp://[::1:12", "tcp://[::1]12",
                           "tcp://::1:12", "file://relative", "file://", "file:///", "file:///a/", "http://host:80"}) {
    RendezvousUrl url;
    const Status status = parse_url(text, &url);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << text;
    EXPECT_NE(status.text().find(fmt::format("\"{}\"", text)), std::string::npos) << status.text();
  }
}

TEST(FileUrl, ProcessesMeetAndNothingIsLeft) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("meet");
  JoiningProcesses processes;
  processes.start_all(5, [&](int rank, SharedPage&) {
    TUTTI_TRY(join_by("file://" + path, rank, 5));
    return std::filesystem::exists(path) ? fail(Code::kInternalError, "the file is still there") : Status();
  });
  processes.wait();
  expect_all_ok(processes.page(), 5);
  EXPECT_TRUE(directory.empty());
}

TEST(FileUrl, RanksMayComeInAnyOrder) {
  for (const int last : {0, 1, 2}) {
    const TemporaryDirectory directory;
    JoiningProcesses processes;
    processes.start_all(3, [&](int rank, SharedPage& page) {
      if (rank == last) {
        page.wait_for_mark(0, 2);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
      page.mark(0);
      return join_by("file://" + directory.file("meet"), rank, 3);
    });
    processes.wait();
    expect_all_ok(processes.page(), 3);
  }
}

TEST(FileUrl, TheKthJoinMeetsTheKth) {
  const TemporaryDirectory directory;
  JoiningProcesses processes;
  processes.start_all(3, [&](int rank, SharedPage&) {
    for (int round = 0; round < 20; ++round) TUTTI_TRY(join_by("file://" + directory.file("meet"), rank, 3));
    return Status();
  });
  processes.wait();
  expect_all_ok(processes.page(), 3);
}

TEST(FileUrl, ThreadsCountTheirOwnRounds) {
  const TemporaryDirectory directory;
  SharedPage page;
  test::run_threads(3, page, [&](int rank, SharedPage&) {
    for (int round = 0; round < 3; ++round) TUTTI_TRY(join_by("file://" + directory.file("meet"), rank, 3));
    return Status();
  });
  expect_all_ok(page, 3);
}

TEST(FileUrl, AStaleFileDoesNoHarm) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("meet");
  JoiningProcesses old;
  old.start(0, [&](int, SharedPage&) { return join_by("file://" + path, 0, 2); });
  ASSERT_TRUE(test::await([&] { return std::filesystem::exists(path); }, "the file of rank 0"));
  old.kill(0);
  old.wait();
  ASSERT_TRUE(std::filesystem::exists(path));  // nobody took it away
  JoiningProcesses fresh;
  fresh.start_all(3, [&](int rank, SharedPage& page) {
    if (rank == 0) {
      page.wait_for_mark(0, 2);
      std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the others look at the old file first
    }
    page.mark(0);
    return join_by("file://" + path, rank, 3);
  });
  fresh.wait();
  expect_all_ok(fresh.page(), 3);
  EXPECT_TRUE(directory.empty());
}

/// An id whose process is gone with its host, or behind a cable that is out: nothing comes back.
RendezvousFile silent_meeting(const std::array<std::byte, 4>& address, std::uint16_t port) {
  UniqueId id;
  id.secret.fill(std::byte{1});
  id.nonce.fill(std::byte{2});
  id.port = port;
  id.addresses.resize(1);
  std::copy(address.begin(), address.end(), id.addresses[0].bytes.begin());
  return RendezvousFile{1, id.encode()};
}

TEST(FileUrl, AStaleFileOfASilentHostDoesNoHarm) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("meet");
  const std::uint16_t port = free_port();
  const Descriptor silent = listen_at(port);
  const RendezvousFile old = silent_meeting({std::byte{127}, std::byte{0}, std::byte{0}, std::byte{1}}, port);
  ASSERT_TRUE(write_rendezvous_file(path, old).ok());
  JoiningProcesses processes;
  processes.start_all(3, [&](int rank, SharedPage&) {
    if (rank == 0) {
      // Both others have begun with the old file.
      for (int taken = 0; taken < 2; ++taken) {
        pollfd wanted{silent.get(), POLLIN, 0};
        if (test::restarted([&] { return ::poll(&wanted, 1, 100'000); }) != 1)
          return fail(Code::kInternalError, "nobody has tried the old file");
        (void)Descriptor(::accept(silent.get(), nullptr, nullptr)).release();  // and hears nothing to its end
      }
    }
    return join_by("file://" + path, rank, 3, 9);  // less than an attempt at a silent address takes
  });
  processes.wait();
  expect_all_ok(processes.page(), 3);
  EXPECT_TRUE(directory.empty());
}

// It may be the file of this very job, and its host be out of reach for a moment: nobody has said that it is over.
TEST(FileUrl, AFileThatNobodyAnswersForIsNotCalledOld) {
  const TemporaryDirectory directory;
  RendezvousFile content = silent_meeting({std::byte{127}, std::byte{255}, std::byte{255}, std::byte{255}}, 7);
  ASSERT_TRUE(write_rendezvous_file(directory.file("meet"), content).ok());
  const Status status = join_by("file://" + directory.file("meet"), 1, 2, 3);
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_NE(status.text().find("unreachable"), std::string::npos) << status.text();
}

TEST(FileUrl, AForeignFileIsLeftAlone) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("precious");
  std::ofstream(path) << "do not lose this";
  const Status status = join_by("file://" + path, 0, 1);
  EXPECT_EQ(status.code(), Code::kInvalidUsage) << status.text();
  std::string word;
  std::ifstream(path) >> word;
  EXPECT_EQ(word, "do");
}

TEST(FileUrl, LinksAndWritableFilesAreNotBelieved) {
  const TemporaryDirectory directory;
  const RendezvousFile content{1, {}};
  ASSERT_TRUE(write_rendezvous_file(directory.file("real"), content).ok());
  RendezvousFile read;
  bool found = false;
  std::string why;
  read_rendezvous_file(directory.file("real"), &read, &found, &why);
  EXPECT_TRUE(found) << why;
  EXPECT_EQ(read, content);
  ASSERT_EQ(::symlink(directory.file("real").c_str(), directory.file("link").c_str()), 0);
  read_rendezvous_file(directory.file("link"), &read, &found, &why);
  EXPECT_FALSE(found);
  ::chmod(directory.file("real").c_str(), 0622);
  read_rendezvous_file(directory.file("real"), &read, &found, &why);
  EXPECT_FALSE(found);
  ::mkfifo(directory.file("pipe").c_str(), 0600);
  read_rendezvous_file(directory.file("pipe"), &read, &found, &why);
  EXPECT_FALSE(found);
}

TEST(FileUrl, AMissingRankZeroIsNamed) {
  const TemporaryDirectory directory;
  const Status status = join_by("file://" + directory.file("never"), 1, 2, 3);
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_NE(status.text().find("rank 0"), std::string::npos) << status.text();
}

TEST(FileUrl, AMissingRankIsNamed) {
  const TemporaryDirectory directory;
  const Status status = join_by("file://" + directory.file("meet"), 0, 2, 3);
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_NE(status.text().find("rank 1"), std::string::npos) << status.text();
  EXPECT_TRUE(directory.empty());
}

TEST(TcpUrl, ProcessesMeetAndThePortIsFree) {
  const std::uint16_t port = free_port();
  JoiningProcesses processes;
  processes.start_all(3, [&](int rank, SharedPage&) {
    for (int round = 0; round < 5; ++round) TUTTI_TRY(join_by(fmt::format("tcp://127.0.0.1:{}", port), rank, 3));
    // One rank alone asks: those who ask at the same time are in each other's way.
    const bool is_free = rank != 0 || test::comes_true([&] { return can_bind(port); });
    return is_free ? Status() : fail(Code::kInternalError, "the port is still in use");
  });
  processes.wait();
  expect_all_ok(processes.page(), 3);
}

std::uint16_t local_port(int descriptor) {
  sockaddr_in at{};
  socklen_t size = sizeof(at);
  ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&at), &size);
  return ntohs(at.sin_port);
}

TEST(TcpUrl, APortThatIsInUseForAMomentIsWaitedFor) {
  const std::uint16_t port = free_port();
  Descriptor other = listen_at(port);
  std::thread leaves([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    other.reset();
  });
  SharedPage page;
  test::run_threads(2, page,
                    [&](int rank, SharedPage&) { return join_by(fmt::format("tcp://127.0.0.1:{}", port), rank, 2); });
  leaves.join();
  expect_all_ok(page, 2);
}

TEST(TcpUrl, APortThatIsInUseForLongIsNamed) {
  const std::uint16_t port = free_port();
  const Descriptor other = listen_at(port);
  const Status status = join_by(fmt::format("tcp://127.0.0.1:{}", port), 0, 2, 3);
  EXPECT_EQ(status.code(), Code::kSystemError) << status.text();
  for (const std::string& part : {std::string("rank 0 "), fmt::format("TCP port {}", port), std::string("in use")})
    EXPECT_NE(status.text().find(part), std::string::npos) << status.text();
}

TEST(TcpUrl, ARangeThatIsUsedUpIsNamed) {
  const Descriptor other = listen_at(free_port());
  Settings settings;
  settings.port_first = settings.port_last = local_port(other.get());
  std::shared_ptr<Hub> hub;
  ASSERT_TRUE(wait_for_no_hub(test::kPatience));
  const Status status = Hub::acquire(settings, &hub);
  EXPECT_EQ(status.code(), Code::kSystemError) << status.text();
  EXPECT_NE(status.text().find("TUTTI_PORT_RANGE"), std::string::npos) << status.text();
}

// The range of the ranks' own listeners may hold the port: then the rank has taken it itself.
TEST(TcpUrl, ThePortMayBeTheHubsOwn) {
  const std::uint16_t port = free_port();
  Settings settings;
  settings.port_first = settings.port_last = port;
  SharedPage page;
  test::run_threads(2, page, [&](int rank, SharedPage&) {
    return join_by(fmt::format("tcp://127.0.0.1:{}", port), rank, 2, test::kFarSeconds, settings);
  });
  expect_all_ok(page, 2);
}

/// Until the system happens to give the connection's own end the port that it dials.
bool connect_to_itself(std::uint16_t port, Socket* connected) {
  IpAddress home;
  home.bytes[0] = std::byte{127};
  home.bytes[3] = std::byte{1};
  for (int tries = 0; tries < 100000; ++tries)
    if (Socket::connect(home, port, 0, connected).ok() && local_port(connected->descriptor()) == port) return true;
  return false;
}

// Ranks that ask before rank 0 listens may be given its port for their own end, and be connected to themselves.
TEST(TcpUrl, WhoIsConnectedToItselfDoesNotKeepThePort) {
  int low = 0, high = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> low >> high;
  if (high - low < 1000 || high - low > 50000) GTEST_SKIP() << "local ports " << low << " to " << high;
  // Another program's connection may have such a port, too: then the next one tells.
  bool tried = false;
  for (int attempt = 0; attempt < 5; ++attempt) {
    const int offset = (2 * ::getpid() + 14 * attempt) % (high - low - 300);
    const auto port = static_cast<std::uint16_t>(low + 200 + offset / 2 * 2);
    Socket connected;
    if (!connect_to_itself(port, &connected)) continue;
    tried = true;
    const bool during = can_bind(port);
    connected.close();
    if (during && can_bind(port)) return;
  }
  if (!tried) GTEST_SKIP() << "the system gave nobody a port that was tried";
  FAIL() << "a port whose owner is connected to itself cannot be bound, nor after that connection's end";
}

// A container's name becomes known when it runs.
TEST(TcpUrl, AHostWhoseNameIsNotKnownYetIsWaitedFor) {
  unknown_lookups.store(1);
  const std::uint16_t port = free_port();
  SharedPage page;
  test::run_threads(2, page, [&](int rank, SharedPage&) {
    return join_by(fmt::format("tcp://late.tutti.invalid:{}", port), rank, 2);
  });
  EXPECT_LE(unknown_lookups.load(), 0);
  expect_all_ok(page, 2);
}

TEST(TcpUrl, AHostWhoseNameStaysUnknownIsNamedAtTheDeadline) {
  unknown_lookups.store(1000);
  const Status status = join_by("tcp://late.tutti.invalid:4711", 1, 2, 5);
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_NE(status.text().find("cannot resolve host \"late.tutti.invalid\""), std::string::npos) << status.text();
  EXPECT_LE(unknown_lookups.load(), 998) << "it was looked up once only";
  EXPECT_GE(unknown_lookups.load(), 990) << "a name server has other things to do";
}

TEST(TcpUrl, TheSecretFileMustBeTheSame) {
  const TemporaryDirectory directory;
  for (const char* name : {"a", "b"}) {
    std::ofstream(directory.file(name)) << "a long enough secret " << name;
    ::chmod(directory.file(name).c_str(), 0600);
  }
  const std::uint16_t port = free_port();
  const auto run = [&](const std::string& of_rank_1, double seconds, SharedPage& page) {
    test::run_threads(2, page, [&](int rank, SharedPage&) {
      Settings settings;
      settings.secret_file = directory.file(rank == 0 ? "a" : of_rank_1);
      return join_by(fmt::format("tcp://localhost:{}", port), rank, 2, rank == 0 ? 2 * seconds : seconds, settings);
    });
  };
  SharedPage same;
  run("a", test::kFarSeconds, same);
  expect_all_ok(same, 2);
  SharedPage different;
  run("b", 3, different);
  EXPECT_EQ(different.code(0), Code::kTimeout) << different.text(0);
  EXPECT_EQ(different.code(1), Code::kTimeout);
  EXPECT_NE(different.text(1).find("another secret"), std::string::npos) << different.text(1);
}

TEST(TcpUrl, ASecretFileOpenToOthersIsRefused) {
  const TemporaryDirectory directory;
  std::ofstream(directory.file("s")) << "a long enough secret";
  ::chmod(directory.file("s").c_str(), 0644);
  Settings settings;
  settings.secret_file = directory.file("s");
  EXPECT_EQ(join_by("tcp://localhost:1", 0, 1, 1, settings).code(), Code::kInvalidUsage);
}

TEST(TcpUrl, TlsWithoutASecretIsRefused) {
  Settings settings;
  settings.tls = true;
  const Status status = join_by("tcp://localhost:1", 0, 1, 1, settings);
  EXPECT_EQ(status.code(), Code::kInvalidUsage);
  EXPECT_NE(status.text().find("TUTTI_SECRET_FILE"), std::string::npos) << status.text();
}

/// Without a secret file anybody passes the handshake at the door.
TEST(TcpUrl, ACrowdThatAsksNothingKeepsNobodyOut) {
  std::shared_ptr<Hub> hub;
  ASSERT_TRUE(Hub::acquire(Settings{}, &hub).ok());
  RendezvousKeys keys;
  const std::uint16_t port = test::free_port();
  ASSERT_TRUE(rendezvous_keys(Settings{}, port, "", &keys).ok());
  IdBytes id{};
  id[100] = std::byte{7};
  ASSERT_TRUE(publish_id(hub, keys, "tcp://127.0.0.1", port, 1, id, Deadline::in(test::kFarSeconds)).ok());
  constexpr std::size_t kCrowd = UrlService::kMostConnections + 50;
  std::atomic<std::size_t> inside{0};
  std::atomic<std::size_t> closed{0};
  std::vector<std::shared_ptr<Connection>> kept;  // and the dialers, in the loop's thread
  std::vector<std::shared_ptr<Dialer>> dialers;
  IpAddress local;
  local.bytes[0] = std::byte{127};
  local.bytes[3] = std::byte{1};
  const auto enter = [&](const Status&, const std::shared_ptr<Connection>& connection) {
    ConnectionEvents events;
    events.on_close = [&closed](const Status&) { closed.fetch_add(1); };
    if (connection) connection->set_events(std::move(events));
    if (connection) kept.push_back(connection);
    inside.fetch_add(1);
  };
  for (std::size_t i = 0; i < kCrowd; ++i) {
    hub->loop().call(
        [&] {
          dialers.push_back(std::make_shared<Dialer>(hub->loop(), tcp_targets({local}, port, false), Role::kAskId,
                                                     keys.id, keys.secret, enter));
          dialers.back()->start();
        },
        test::kPatience);
    ASSERT_TRUE(test::await([&] { return inside.load() > i; }, "the end of an attempt"));
  }
  IdBytes got{};
  const Status asked = ask_for_id(hub, keys, "127.0.0.1", port, 1, Rank{1}, Deadline::in(test::kFarSeconds), &got);
  EXPECT_TRUE(asked.ok()) << asked.text();
  EXPECT_EQ(got, id);
  EXPECT_GE(closed.load(), kCrowd - UrlService::kMostConnections);
  const auto leave = [&] {
    for (const auto& connection : kept) connection->close();
    kept.clear();
    dialers.clear();
  };
  EXPECT_TRUE(hub->loop().call(leave, test::kPatience));
  withdraw_id(hub, keys, 1);
}

}  // namespace
}  // namespace tutti
