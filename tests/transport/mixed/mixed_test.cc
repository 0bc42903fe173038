// Covers transport/mixed/mixed.cc.
// Shared memory to some ranks and tcp to others: who waits for one kind serves the other.
#include "transport/mixed/mixed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "support/emulated.h"
#include "transport/tcp_fabric.h"

namespace tutti::testing_traffic {
namespace {

constexpr Bytes kLarge{256 * 1024};
constexpr WorldSize kThree{3, 1, kLarge};

constexpr ShmGeometry kNear{2, 1, kLarge, 2};

/// Rank 0, whose memory rank 1 shares; rank 2 is far.
std::unique_ptr<MixedEndpoint> open_mixed(TcpFabric& fabric, Segments segments, int ranks_per_core = 1) {
  const std::vector<Rank> near{Rank{0}, Rank{1}};
  TcpEndpoint::Place place{Rank{0}, 3, 1, near};
  std::unique_ptr<TcpEndpoint> far;
  require(TcpEndpoint::open(fabric.tcp_streams(Rank{0}), {kLarge, 8, false}, std::move(place), {}, &far).ok(),
          "no tcp");
  return std::make_unique<MixedEndpoint>(std::make_unique<ShmEndpoint>(kNear, Rank{0}, std::move(segments)),
                                         std::move(far), near, ranks_per_core);
}

/// Rank 0 sends to the far rank as much as there are credits for, far more than its connection takes at once, and then
/// does nothing but wait for the near rank; the far one must get everything.
template <class Wait>
void expect_delivery_during(const Wait& wait, const Segments& segments = make_segments(kNear)) {
  TcpFabric fabric(3, narrow_tcp_pair);
  const auto first = open_mixed(fabric, segments);
  const auto far = open_tcp(fabric, kThree, Rank{2});
  std::uint64_t sent = 0;
  while (try_send(*first, unicast(Rank{2}), kLarge, sent + 1)) ++sent;
  ASSERT_GT(sent, 1u);
  const std::string failure = outcome([&] {
    for (std::uint64_t seed = 1; seed <= sent; ++seed)
      poll_until("message " + std::to_string(seed), [&] {
        wait(*first);
        return try_receive(*far, unicast(Rank{0}), kLarge, seed);
      });
  });
  EXPECT_EQ(failure, "");
}

TEST(Mixed, NearRanksNeedNotFollowOneAnother) {
  TcpFabric fabric(5, narrow_tcp_pair);
  const std::vector<Rank> near{Rank{1}, Rank{3}};
  std::unique_ptr<TcpEndpoint> far;
  ASSERT_TRUE(TcpEndpoint::open(fabric.tcp_streams(Rank{1}), {kLarge, 8, false}, {Rank{1}, 5, 1, near}, {}, &far).ok());
  const Segments segments = make_segments(kNear);
  ShmEndpoint other(kNear, Rank{1}, segments);
  MixedEndpoint end(std::make_unique<ShmEndpoint>(kNear, Rank{0}, segments), std::move(far), near);
  EXPECT_EQ(end.board(Rank{1}), &end.board());
  EXPECT_EQ(end.board(Rank{3}), &other.board());
  for (const Rank rank : {Rank{0}, Rank{2}, Rank{4}}) EXPECT_EQ(end.board(rank), nullptr) << rank.value;
}

TEST(Mixed, WhoWaitsForANearMessageGoesOnSendingToTheFar) {
  expect_delivery_during(
      [](MixedEndpoint& end) { EXPECT_EQ(end.recv_peek(unicast(Rank{1}), kLarge, 1).state, PeekState::kAgain); });
}

TEST(Mixed, WhoWaitsForRoomInANearLinkGoesOnSendingToTheFar) {
  expect_delivery_during([](MixedEndpoint& end) {
    while (try_send(end, unicast(Rank{1}), kLarge, 7)) continue;
  });
}

TEST(Mixed, WhoWaitsToSendANearRankAReferenceGoesOnSendingToTheFar) {
  if (test::is_emulated()) GTEST_SKIP() << "this system does not offer process_vm_readv";
  const Segments segments = make_segments(kNear);
  const std::unique_ptr<ShmEndpoint> near = open_endpoint(kNear, Rank{1}, segments);
  const std::vector<std::byte> data(kLarge.value);
  bool reads = false;
  const auto offer = [&](MixedEndpoint& end) {
    return end.send_reference(unicast(Rank{1}), data.data(), kLarge, mix64(7));
  };
  const auto send_references = [&](MixedEndpoint& end) {
    if (!reads) {  // rank 1 reads references only after it has received a message that was copied
      EXPECT_EQ(offer(end), ReferenceState::kNotOffered);
      send(end, unicast(Rank{1}), kLarge, 7);
      receive(*near, unicast(Rank{0}), kLarge, 7);
      reads = true;
    }
    ReferenceState state = ReferenceState::kSent;
    while (state == ReferenceState::kSent) state = offer(end);
    EXPECT_EQ(state, ReferenceState::kAgain);
  };
  expect_delivery_during(send_references, segments);
}

/// Rank 0 waits for somebody who does not come.
class TimedMixedSleep : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!ProcessBarrier::enroll()) GTEST_SKIP() << "without barriers that reach other processes all sleeps are short";
  }
  /// How often it wakes until it has slept for so long.
  static int count_sleeps(MixedEndpoint& end, std::chrono::milliseconds time) {
    int sleeps = 0;
    for (const auto limit = Clock::now() + time; Clock::now() < limit; ++sleeps) {
      end.announce_sleep(kNoRank);
      end.sleep(std::chrono::milliseconds(100));
    }
    return sleeps;
  }
  void use_far_links() {
    send(*end_, unicast(Rank{2}), Bytes{8}, 1);
    poll_until("the message", [&] {
      end_->make_progress();
      return try_receive(*far_, unicast(Rank{0}), Bytes{8}, 1);
    });
  }
  void open(int ranks_per_core) { end_ = open_mixed(fabric_, segments_, ranks_per_core); }

  /// How long one sleep takes that nobody ends. A first one of a wait may be short whatever it is for.
  static Clock::duration sleep_once(MixedEndpoint& end, Rank only = kNoRank) {
    const auto begin = Clock::now();
    end.announce_sleep(only);
    end.sleep(std::chrono::milliseconds(100));
    return Clock::now() - begin;
  }
  /// A sleep that the scheduler ends late is longer, so the shortest of some counts.
  static Clock::duration shortest_sleep(MixedEndpoint& end) {
    Clock::duration shortest = sleep_once(end);
    for (int i = 0; i < 4; ++i) shortest = std::min(shortest, sleep_once(end));
    return shortest;
  }
  void far_message(std::uint64_t seed) {
    send(*far_, unicast(Rank{0}), Bytes{8}, seed);
    receive(*end_, unicast(Rank{2}), Bytes{8}, seed);
  }

  static constexpr int kCrowd = 1000;  // ranks on the core
  /// After such a wait a sleep lasts an eighth of it, which is more than 20 ms, until something comes.
  static constexpr std::chrono::milliseconds kLong{300};
  static constexpr std::chrono::milliseconds kShort{20};

  TcpFabric fabric_{3, narrow_tcp_pair};
  const Segments segments_ = make_segments(kNear);
  const std::unique_ptr<ShmEndpoint> near_ = open_endpoint(kNear, Rank{1}, segments_);
  const std::unique_ptr<TcpEndpoint> far_ = open_tcp(fabric_, kThree, Rank{2});
  std::unique_ptr<MixedEndpoint> end_;
};

TEST_F(TimedMixedSleep, WithoutFarLinksLastsUntilSomebodyWakesIt) {
  open(1);
  EXPECT_LE(count_sleeps(*end_, std::chrono::milliseconds(500)), 10);
}

// If each of hundreds of ranks looked at its connections every few milliseconds, none of them would get to its work.
TEST_F(TimedMixedSleep, OfManyRanksOnACoreGetsLongerWithTheWait) {
  open(kCrowd);
  use_far_links();
  EXPECT_LE(count_sleeps(*end_, std::chrono::milliseconds(500)), 60);
}

TEST_F(TimedMixedSleep, IsShortAgainAfterAFarMessage) {
  open(kCrowd);
  use_far_links();
  count_sleeps(*end_, kLong);
  EXPECT_GT(shortest_sleep(*end_), kShort);
  far_message(2);
  EXPECT_LT(shortest_sleep(*end_), kShort);
}

TEST_F(TimedMixedSleep, IsShortAgainAfterANearMessage) {
  open(kCrowd);
  use_far_links();
  count_sleeps(*end_, kLong);
  send(*near_, unicast(Rank{0}), Bytes{8}, 3);
  receive(*end_, unicast(Rank{1}), Bytes{8}, 3);
  EXPECT_LT(shortest_sleep(*end_), kShort);
}

// A near rank wakes it, so it looks at its connections every 5 ms only.
TEST_F(TimedMixedSleep, ForANearRankIsLongFromItsSecondOn) {
  open(1);
  use_far_links();
  Clock::duration for_any = test::kPatience;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    far_message(seed);  // so the next sleep ends at once: something has moved
    for (int i = 0; i < 2; ++i) sleep_once(*end_, Rank{1});
    EXPECT_GE(sleep_once(*end_, Rank{1}), std::chrono::milliseconds(4));
    far_message(100 + seed);
    for (int i = 0; i < 2; ++i) sleep_once(*end_);
    for_any = std::min(for_any, sleep_once(*end_));
  }
  EXPECT_LT(for_any, std::chrono::milliseconds(4)) << "a far rank does not wake it";
}

TEST_F(TimedMixedSleep, AFarRankThatConnectsEndsIt) {
  open(1);
  fabric_.tcp_streams(Rank{0}).set_listener([&] { end_->wake(); });
  sleep_once(*end_);
  std::atomic<bool> is_over{false};
  std::jthread far([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    send(*far_, unicast(Rank{0}), Bytes{8}, 4);
    while (!is_over.load()) far_->make_progress();
  });
  const auto begin = Clock::now();
  end_->announce_sleep(kNoRank);
  end_->sleep(test::kPatience);
  EXPECT_LT(Clock::now() - begin, test::kPatience) << "it slept on";
  receive(*end_, unicast(Rank{2}), Bytes{8}, 4);
  is_over.store(true);
  fabric_.tcp_streams(Rank{0}).set_listener(nullptr);
}

}  // namespace
}  // namespace tutti::testing_traffic
