// Covers transport/mixed/mixed.cc.
// Shared memory to some ranks and tcp to others: who waits for one kind serves the other.
#include "transport/mixed/mixed.h"

#include <gtest/gtest.h>

#include "transport/tcp_fabric.h"

namespace tutti::testing_traffic {
namespace {

constexpr Bytes kLarge{256 * 1024};
constexpr WorldSize kThree{3, 1, kLarge};

/// Rank 0, whose memory rank 1 shares; rank 2 is far.
std::unique_ptr<MixedEndpoint> open_mixed(TcpFabric& fabric) {
  const ShmGeometry geometry{2, 1, kLarge, 2};
  std::vector<std::shared_ptr<Segment>> segments(2);
  for (std::shared_ptr<Segment>& segment : segments)
    require(Segment::create(geometry.segment_bytes(), &segment).ok(), "no memory");
  TcpEndpoint::Place place{Rank{0}, 3, 1, {Rank{2}}};
  std::unique_ptr<TcpEndpoint> far;
  require(TcpEndpoint::open(fabric.tcp_streams(Rank{0}), {kLarge, 8, false}, std::move(place), {}, &far).ok(),
          "no tcp");
  return std::make_unique<MixedEndpoint>(std::make_unique<ShmEndpoint>(geometry, Rank{0}, std::move(segments)),
                                         std::move(far), std::vector<int>{0, 1, -1});
}

/// Rank 0 sends to the far rank as much as there are credits for, far more than its connection takes at once, and then
/// does nothing but wait for the near rank; the far one must get everything.
template <class Wait>
void expect_delivery_during(const Wait& wait) {
  TcpFabric fabric(3, narrow_tcp_pair);
  const auto first = open_mixed(fabric);
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

}  // namespace
}  // namespace tutti::testing_traffic
