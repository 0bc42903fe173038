// Covers transport/mixed/mixed.cc.
// Shared memory to some ranks and tcp to others: who waits for one kind serves the other.
#include "transport/mixed/mixed.h"

#include <gtest/gtest.h>

#include "support/emulated.h"
#include "transport/tcp_fabric.h"

namespace tutti::testing_traffic {
namespace {

constexpr Bytes kLarge{256 * 1024};
constexpr WorldSize kThree{3, 1, kLarge};

constexpr ShmGeometry kNear{2, 1, kLarge, 2};

/// Rank 0, whose memory rank 1 shares; rank 2 is far.
std::unique_ptr<MixedEndpoint> open_mixed(TcpFabric& fabric, Segments segments, int ranks_per_core = 1) {
  TcpEndpoint::Place place{Rank{0}, 3, 1, {Rank{2}}};
  std::unique_ptr<TcpEndpoint> far;
  require(TcpEndpoint::open(fabric.tcp_streams(Rank{0}), {kLarge, 8, false}, std::move(place), {}, &far).ok(),
          "no tcp");
  return std::make_unique<MixedEndpoint>(std::make_unique<ShmEndpoint>(kNear, Rank{0}, std::move(segments)),
                                         std::move(far), std::vector<int>{0, 1, -1}, ranks_per_core);
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
class MixedSleep : public ::testing::Test {
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

  /// After such a wait sleeps last a quarter of it, until something comes.
  static constexpr std::chrono::milliseconds kLong{300};

  TcpFabric fabric_{3, narrow_tcp_pair};
  const Segments segments_ = make_segments(kNear);
  const std::unique_ptr<ShmEndpoint> near_ = open_endpoint(kNear, Rank{1}, segments_);
  const std::unique_ptr<TcpEndpoint> far_ = open_tcp(fabric_, kThree, Rank{2});
  std::unique_ptr<MixedEndpoint> end_;
};

TEST_F(MixedSleep, WithoutFarLinksLastsUntilSomebodyWakesIt) {
  open(1);
  EXPECT_LE(count_sleeps(*end_, std::chrono::milliseconds(500)), 10);
}

// If each of hundreds of ranks looked at its connections every few milliseconds, none of them would get to its work.
TEST_F(MixedSleep, OfManyRanksOnACoreGetsLongerWithTheWait) {
  open(64);
  use_far_links();
  EXPECT_LE(count_sleeps(*end_, std::chrono::milliseconds(500)), 60);
}

TEST_F(MixedSleep, IsShortAgainAfterAFarMessage) {
  open(64);
  use_far_links();
  count_sleeps(*end_, kLong);
  send(*far_, unicast(Rank{0}), Bytes{8}, 2);
  receive(*end_, unicast(Rank{2}), Bytes{8}, 2);
  EXPECT_GE(count_sleeps(*end_, kLong), 15);
}

TEST_F(MixedSleep, IsShortAgainAfterANearMessage) {
  open(64);
  use_far_links();
  count_sleeps(*end_, kLong);
  send(*near_, unicast(Rank{0}), Bytes{8}, 3);
  receive(*end_, unicast(Rank{1}), Bytes{8}, 3);
  EXPECT_GE(count_sleeps(*end_, kLong), 15);
}

TEST_F(MixedSleep, AFarRankThatConnectsEndsIt) {
  open(1);
  fabric_.tcp_streams(Rank{0}).set_listener([&] { end_->wake(); });
  count_sleeps(*end_, std::chrono::milliseconds(10));
  end_->announce_sleep(kNoRank);
  send(*far_, unicast(Rank{0}), Bytes{8}, 4);
  const auto begin = Clock::now();
  while (!try_receive(*end_, unicast(Rank{2}), Bytes{8}, 4)) {
    far_->make_progress();
    ASSERT_LT(Clock::now() - begin, test::kPatience);
    end_->sleep(test::kPatience);
    end_->announce_sleep(kNoRank);
  }
  fabric_.tcp_streams(Rank{0}).set_listener(nullptr);
}

}  // namespace
}  // namespace tutti::testing_traffic
