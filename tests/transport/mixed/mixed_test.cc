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
std::unique_ptr<MixedEndpoint> open_mixed(TcpFabric& fabric, Segments segments) {
  TcpEndpoint::Place place{Rank{0}, 3, 1, {Rank{2}}};
  std::unique_ptr<TcpEndpoint> far;
  require(TcpEndpoint::open(fabric.tcp_streams(Rank{0}), {kLarge, 8, false}, std::move(place), {}, &far).ok(),
          "no tcp");
  return std::make_unique<MixedEndpoint>(std::make_unique<ShmEndpoint>(kNear, Rank{0}, std::move(segments)),
                                         std::move(far), std::vector<int>{0, 1, -1});
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

}  // namespace
}  // namespace tutti::testing_traffic
