// Streams between ranks: who dials, when both want, again after a loss, and who is turned away.
#include "comm/wiring.h"

#include <poll.h>
#include <sys/socket.h>

#include "comm/places.h"
#include "comm/unique_id.h"
#include "comm/world.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;
using test::Processes;
using test::SharedPage;

constexpr Lane kLane{1};

Status expect(bool condition, const char* what) {
  return condition ? Status() : fail(Code::kInternalError, "{}", what);
}

/// Every rank calls itself a host of its own.
Status join_apart(int rank, int ranks, SharedPage& page, JoinResult* joined, double reconnect = 10) {
  IdBytes id;
  TUTTI_TRY(test::obtain_id(rank, page, &id));
  JoinRequest request = test::request_for(rank, ranks, id);
  request.settings.host_id = "host " + std::to_string(rank);
  request.settings.reconnect_seconds = reconnect;
  return join(request, joined);
}

/// Waits for a stream as an endpoint would.
bool wait_for_stream(TcpWiring& wiring, Rank peer, Lane lane, TcpStream* stream) {
  for (int i = 0; i < 20000; ++i) {
    if (wiring.take(peer, lane, stream)) return true;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return false;
}

bool can_read(const TcpStream& stream, int limit_ms) {
  pollfd wanted{stream.socket.get(), POLLIN, 0};
  return ::poll(&wanted, 1, limit_ms) == 1;
}

Status send_byte(const TcpStream& stream, char byte) {
  return expect(::send(stream.socket.get(), &byte, 1, MSG_NOSIGNAL) == 1, "nothing can be sent");
}

Status receive_byte(const TcpStream& stream, char byte) {
  if (!stream.leftover.empty())
    return expect(stream.leftover.size() == 1 && std::to_integer<char>(stream.leftover[0]) == byte, "another byte");
  char got = 0;
  TUTTI_TRY(expect(can_read(stream, 20000), "nothing comes"));
  return expect(::recv(stream.socket.get(), &got, 1, 0) == 1 && got == byte, "another byte came");
}

Status talk(const TcpStream& stream, Rank self, Rank peer) {
  TUTTI_TRY(send_byte(stream, static_cast<char>('a' + self.value)));
  return receive_byte(stream, static_cast<char>('a' + peer.value));
}

/// All pairs, wanted by the lower, the higher or both of a pair.
Status meet_all(JoinResult& joined, int rank, int ranks, const std::function<bool(int self, int peer)>& asks) {
  for (int peer = 0; peer < ranks; ++peer)
    if (peer != rank && asks(rank, peer)) joined.wiring->want(Rank{peer}, kLane);
  for (int peer = 0; peer < ranks; ++peer) {
    TcpStream stream;
    if (peer == rank) continue;
    TUTTI_TRY(expect(wait_for_stream(*joined.wiring, Rank{peer}, kLane, &stream), "no stream came"));
    TUTTI_TRY(talk(stream, Rank{rank}, Rank{peer}));
  }
  return expect(joined.wiring->arrivals() >= static_cast<std::uint64_t>(ranks - 1), "arrivals were not counted");
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
  SharedPage* const page = SharedPage::map();
  test::run_threads(4, *page, [](int rank, SharedPage& shared) { return meet_and_leave(rank, 4, shared, GetParam()); });
  test::expect_all_ok(*page, 4);
}

TEST_P(WiringAsk, ProcessesMeet) {
  Processes processes;
  processes.start_all(4, [](int rank, SharedPage& page) { return meet_and_leave(rank, 4, page, GetParam()); });
  processes.wait();
  test::expect_all_ok(processes.page(), 4);
}

INSTANTIATE_TEST_SUITE_P(Who, WiringAsk,
                         testing::Values(Who{"lower", [](int self, int peer) { return self < peer; }},
                                         Who{"higher", [](int self, int peer) { return self > peer; }},
                                         Who{"both", [](int, int) { return true; }}),
                         [](const auto& info) { return info.param.name; });

TEST(Wiring, HostsAreCountedFromTheFirstRank) {
  SharedPage* const page = SharedPage::map();
  test::run_threads(4, *page, [](int rank, SharedPage& shared) {
    IdBytes id;
    TUTTI_TRY(test::obtain_id(rank, shared, &id));
    JoinRequest request = test::request_for(rank, 4, id);
    request.settings.host_id = rank % 2 == 0 ? "even" : "odd";
    JoinResult joined;
    TUTTI_TRY(join(request, &joined));
    TUTTI_TRY(expect(joined.hosts == std::vector<int>{0, 1, 0, 1} && !joined.one_host, "other hosts"));
    for (std::size_t peer = 0; peer < 4; ++peer)
      TUTTI_TRY(expect((joined.segments[peer] != nullptr) == (joined.hosts[peer] == rank % 2), "other segments"));
    joined.membership->say_goodbye(0);
    return Status();
  });
  test::expect_all_ok(*page, 4);
}

TEST(Wiring, AStreamThatBrokeIsMadeAgain) {
  Processes processes;
  processes.start_all(2, [](int rank, SharedPage& page) {
    JoinResult joined;
    TUTTI_TRY(join_apart(rank, 2, page, &joined));
    const Rank peer{1 - rank};
    for (int round = 0; round < 20; ++round) {
      TcpStream stream;
      const int asks = round % 3;  // the lower, the higher, both
      if (asks == 2 || asks == rank) joined.wiring->want(peer, kLane);
      TUTTI_TRY(expect(wait_for_stream(*joined.wiring, peer, kLane, &stream), "no stream came"));
      TUTTI_TRY(talk(stream, Rank{rank}, peer));
      page.mark(1);
      page.wait_for_mark(1, 2 * (round + 1));
      TUTTI_TRY(expect(!joined.wiring->take(peer, kLane, &stream), "one stream too many"));
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
  SharedPage* const page = SharedPage::map();
  test::run_threads(2, *page, [](int rank, SharedPage& shared) {
    JoinResult joined;
    TUTTI_TRY(join_apart(rank, 2, shared, &joined));
    std::atomic<int> calls{0};
    joined.wiring->set_listener([&calls] { calls.fetch_add(1); });
    shared.mark(0);
    shared.wait_for_mark(0, 2);
    if (rank == 1) joined.wiring->want(Rank{0}, kLane);
    for (int i = 0; i < 20000 && calls.load() == 0; ++i) std::this_thread::sleep_for(milliseconds(1));
    TcpStream stream;
    TUTTI_TRY(
        expect(joined.wiring->take(Rank{1 - rank}, kLane, &stream), "it is not there when the listener is called"));
    joined.wiring->set_listener({});
    shared.mark(1);
    shared.wait_for_mark(1, 2);
    joined.membership->say_goodbye(0);
    return expect(calls.load() == 1, "called once too often");
  });
  test::expect_all_ok(*page, 2);
}

}  // namespace
}  // namespace tutti
