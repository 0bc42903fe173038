// Covers transport/tcp/tcp.cc, transport/tcp/tcp_link.cc, transport/tcp/tcp_inbox.cc, transport/tcp/tcp_outbox.cc.
// The tcp endpoint over lines that cut, delay, throttle and damage: nothing is lost, doubled or changed.
#include <gtest/gtest.h>
#include <poll.h>

#include <random>
#include <thread>

#include "transport/tcp_fabric.h"

namespace tutti::testing_traffic {
namespace {

/// How a line treats what it carries. Chances are one in so many chunks; 0: never.
struct Faults {
  unsigned cut = 0;
  unsigned damage = 0;
  unsigned delay = 0;
  std::size_t chunk = 64 * 1024;  ///< the most that it takes at a time
};

/// Stands between the two ends of every connection. One thread a connection; joined by the destructor, which comes
/// after the endpoints are gone.
class FaultyLines {
 public:
  explicit FaultyLines(const Faults& faults) : faults_(faults) {}
  ~FaultyLines() {
    for (std::thread& line : lines_) line.join();
  }
  void connect(Descriptor* first, Descriptor* second) {
    Descriptor near[2];
    tcp_pair(first, &near[0]);
    tcp_pair(&near[1], second);
    lines_.emplace_back([this, a = near[0].release(), b = near[1].release(), seed = ++seed_] {
      Descriptor ends[2] = {Descriptor(a), Descriptor(b)};
      std::mt19937 random(seed);
      while (carry(ends[0].get(), ends[1].get(), &random)) continue;
    });
  }
  std::uint64_t cuts() const { return cuts_.load(std::memory_order_relaxed); }
  std::uint64_t damages() const { return damages_.load(std::memory_order_relaxed); }

 private:
  /// False: the line is dead.
  bool carry(int a, int b, std::mt19937* random) {
    pollfd ends[2] = {{a, POLLIN, 0}, {b, POLLIN, 0}};
    if (test::restarted([&] { return ::poll(ends, 2, 100'000); }) <= 0) return false;
    return (ends[0].revents == 0 || forward(a, b, random)) && (ends[1].revents == 0 || forward(b, a, random));
  }
  bool forward(int from, int to, std::mt19937* random) {
    std::vector<std::byte> bytes(1 + (*random)() % faults_.chunk);
    const ssize_t got = ::recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    const auto happens = [&](unsigned one_in) { return one_in != 0 && (*random)() % one_in == 0; };
    if (happens(faults_.delay)) std::this_thread::sleep_for(std::chrono::microseconds((*random)() % 2000));
    if (happens(faults_.cut)) return cuts_.fetch_add(1, std::memory_order_relaxed), false;
    if (happens(faults_.damage)) {
      bytes[(*random)() % static_cast<std::size_t>(got)] ^= static_cast<std::byte>(1u << ((*random)() % 8));
      damages_.fetch_add(1, std::memory_order_relaxed);
    }
    for (ssize_t sent = 0; sent < got;) {
      const ssize_t now = ::send(to, bytes.data() + sent, static_cast<std::size_t>(got - sent), MSG_NOSIGNAL);
      if (now < 0 && errno != EAGAIN) return false;
      if (now < 0) {
        pollfd end{to, POLLOUT, 0};
        ::poll(&end, 1, 1000);
      }
      sent += std::max<ssize_t>(now, 0);
    }
    return true;
  }

  const Faults faults_;
  unsigned seed_ = 0;
  std::atomic<std::uint64_t> cuts_{0};  // relaxed: counters
  std::atomic<std::uint64_t> damages_{0};
  std::vector<std::thread> lines_;
};

/// Messages of all sizes both ways and to all, some lent, some landing, each checked.
void exchange(TcpEndpoint& end, int rounds, std::vector<std::byte>& lent, std::vector<std::byte>& landing) {
  const Rank peer(1 - end.rank().value);
  std::mt19937 random(5);  // the same on both ranks
  for (int round = 0; round < rounds; ++round) {
    const auto seed = static_cast<std::uint64_t>(round);
    const Bytes bytes(round % 3 == 0 ? 64 * 1024 + random() % (128 * 1024) : random() % 5000);
    const std::uint64_t mine = seed * 2 + static_cast<std::uint64_t>(end.rank().value);
    const std::uint64_t theirs = seed * 2 + static_cast<std::uint64_t>(peer.value);
    Rank late = kNoRank;
    if (bytes.value >= TcpEndpoint::kLendBytes) {
      fill(lent.data(), bytes, mine);
      poll_until("a credit", [&] {
        return end.send_reference(unicast(peer), lent.data(), bytes, mix64(mine)) == ReferenceState::kSent;
      });
    } else {
      send(end, unicast(peer), bytes, mine);
    }
    send(end, multicast_to_all(), Bytes(24), mine);
    poll_until("a message", [&] {
      return end.recv_peek(unicast(peer), bytes, mix64(theirs), landing.data()).state == PeekState::kReady;
    });
    verify(end.recv_peek(unicast(peer), bytes, mix64(theirs), landing.data()).data, bytes, theirs);
    end.recv_release(unicast(peer), bytes);
    receive(end, multicast_from(peer), Bytes(24), theirs);
    poll_until("the peer's release", [&] { return end.references_released(&late); });
  }
}

struct Outcome {
  std::uint64_t cuts;
  std::uint64_t damages;
};

Outcome run_over(const Faults& faults, int rounds, bool checksum) {
  const WorldSize size{.ranks = 2, .max_message = Bytes(256 * 1024)};
  FaultyLines lines(faults);
  TcpFabric fabric(2, [&](Descriptor* first, Descriptor* second) { lines.connect(first, second); });
  run_bodies(
      fabric, size,
      [&](TcpEndpoint& end) {
        std::vector<std::byte> lent(size.max_message.value);
        std::vector<std::byte> landing(size.max_message.value);
        exchange(end, rounds, lent, landing);
      },
      checksum);
  return {lines.cuts(), lines.damages()};
}

constexpr int kRounds = kSanitized ? 300 : 3000;

TEST(TcpFaults, CutLinesLoseNothing) {
  const Outcome outcome = run_over({.cut = 60}, kRounds, false);
  EXPECT_GE(outcome.cuts, kSanitized ? 10u : 100u);
}

TEST(TcpFaults, DamagedBytesAreAskedForAgain) {
  const Outcome outcome = run_over({.damage = 60}, kRounds, true);
  EXPECT_GE(outcome.damages, kSanitized ? 10u : 100u);
}

TEST(TcpFaults, SlowLinesInSmallPiecesLoseNothing) {
  (void)run_over({.delay = 20, .chunk = 3000}, kRounds / 10, false);
}

TEST(TcpFaults, AllAtOnce) {
  const Outcome outcome = run_over({.cut = 100, .damage = 100, .delay = 200, .chunk = 20'000}, kRounds / 3, true);
  EXPECT_GE(outcome.cuts + outcome.damages, kSanitized ? 10u : 100u);
}

}  // namespace
}  // namespace tutti::testing_traffic
