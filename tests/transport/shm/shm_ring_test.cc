// Covers transport/shm/shm_ring.h.
// Which slots a link uses for its messages, and that none is used again before it was released.
#include "transport/shm/shm_ring.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "transport/shm/shm.h"
#include "transport/world.h"

namespace tutti::testing_traffic {
namespace {

constexpr Bytes kLargeSlot{64 * 1024};
constexpr Bytes kSmallSlot{8 * 1024};
constexpr ShmGeometry kRingGeometry{3, 1, Bytes(128 * 1024), 8};

/// Rank 0 sends to rank 1, or to all; all in one thread.
class ShmSlots : public ::testing::Test {
 protected:
  /// Sends the next message and returns where it was.
  std::byte* send(Route route, Bytes bytes) {
    std::byte* const memory = writer_->send_claim(route, bytes);
    if (memory == nullptr) return nullptr;
    fill(memory, bytes, sent_);
    writer_->send_commit(route, bytes, mix64(sent_++));
    return memory;
  }

  /// The addresses of so many messages, each of which is received before the next one is sent.
  std::set<std::byte*> addresses_of(int messages, Bytes bytes) {
    std::set<std::byte*> addresses;
    for (int i = 0; i < messages; ++i) {
      addresses.insert(send(unicast(Rank(1)), bytes));
      EXPECT_TRUE(try_receive(*reader_, unicast(Rank(0)), bytes, sent_ - 1));
    }
    return addresses;
  }

  Segments segments_ = make_segments(kRingGeometry);
  std::unique_ptr<ShmEndpoint> writer_ = open_endpoint(kRingGeometry, Rank(0), segments_);
  std::unique_ptr<ShmEndpoint> reader_ = open_endpoint(kRingGeometry, Rank(1), segments_);
  std::unique_ptr<ShmEndpoint> other_ = open_endpoint(kRingGeometry, Rank(2), segments_);
  std::uint64_t sent_ = 0;
};

TEST_F(ShmSlots, OneLargeMessageAtATimeTakesTwo) { EXPECT_EQ(addresses_of(40, kLargeSlot).size(), 2u); }

TEST_F(ShmSlots, SmallerMessagesTakeAllInTurn) { EXPECT_EQ(addresses_of(40, kSmallSlot).size(), 8u); }

TEST_F(ShmSlots, MessagesThatAreUnderWayHaveOneEach) {
  std::set<std::byte*> addresses;
  for (int i = 0; i < 8; ++i) addresses.insert(send(unicast(Rank(1)), kLargeSlot));
  EXPECT_EQ(addresses.size(), 8u);
  EXPECT_EQ(addresses.count(nullptr), 0u);
  EXPECT_EQ(send(unicast(Rank(1)), kLargeSlot), nullptr);
  for (std::uint64_t i = 0; i < 8; ++i)
    EXPECT_TRUE(try_receive(*reader_, unicast(Rank(0)), kLargeSlot, i)) << "message " << i;
}

TEST_F(ShmSlots, AClaimStaysWhereItIsIfALowerSlotBecomesFree) {
  for (int i = 0; i < 3; ++i) ASSERT_NE(send(unicast(Rank(1)), kLargeSlot), nullptr);
  std::byte* const claimed = writer_->send_claim(unicast(Rank(1)), kLargeSlot);
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(try_receive(*reader_, unicast(Rank(0)), kLargeSlot, i));
  EXPECT_EQ(writer_->send_claim(unicast(Rank(1)), kLargeSlot), claimed);
  EXPECT_EQ(send(unicast(Rank(1)), kLargeSlot), claimed);
  EXPECT_TRUE(try_receive(*reader_, unicast(Rank(0)), kLargeSlot, 3));
}

TEST_F(ShmSlots, OneThatEveryReaderReleasedIsUsedAgain) {
  for (std::uint64_t i = 0; i < 40; ++i) {
    ASSERT_NE(send(multicast_to_all(), kLargeSlot), nullptr) << "message " << i;
    ASSERT_TRUE(try_receive(*reader_, multicast_from(Rank(0)), kLargeSlot, i));
    if (i < 5) continue;  // it is late
    ASSERT_TRUE(try_receive(*other_, multicast_from(Rank(0)), kLargeSlot, i - 5));
  }
}

TEST_F(ShmSlots, NoneIsUsedAgainBeforeItWasRead) {
  std::mt19937 random(7);
  std::deque<Bytes> unread;
  std::uint64_t received = 0;
  for (int i = 0; i < 3000; ++i) {
    if (random() % 2 == 0) {
      const Bytes bytes(random() % 4 == 0 ? 64 * 1024 + random() % 1000 : 4097 + random() % 2000);
      if (send(unicast(Rank(1)), bytes) != nullptr) unread.push_back(bytes);
    } else if (!unread.empty()) {
      ASSERT_TRUE(try_receive(*reader_, unicast(Rank(0)), unread.front(), received++));
      unread.pop_front();
    }
  }
}

TEST_F(ShmSlots, AFaultyPeersCountsAndNumbersEndNothingAndLeadNowhereElse) {
  std::byte* const segment = segments_[0]->data();
  const ShmLayout layout(kRingGeometry);
  auto* const line = reinterpret_cast<ReleaseLine*>(segments_[1]->data() + layout.release_line(Rank(0), 0));
  std::atomic<std::uint64_t>& released = line->released[0][static_cast<std::size_t>(RingKind::kSlots)];
  auto* const headers = reinterpret_cast<MessageHeader*>(segment + layout.headers(1, 0, RingKind::kSlots));
  const std::size_t first = layout.payloads(1, 0, RingKind::kSlots);
  const std::size_t end = first + layout.slots() * layout.payload_stride(RingKind::kSlots);
  std::mt19937_64 random(11);
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t counts[] = {0, sent_, sent_ + 3, random(), std::numeric_limits<std::uint64_t>::max()};
    released.store(counts[random() % 5], std::memory_order_release);
    headers[random() % layout.slots()].set_slot(random());
    const std::byte* const memory = send(unicast(Rank(1)), i % 2 == 0 ? kLargeSlot : kSmallSlot);
    if (memory == nullptr) continue;
    const auto offset = static_cast<std::size_t>(memory - segment);
    ASSERT_GE(offset, first);
    ASSERT_LT(offset, end);
  }
  headers[0].set_slot(random() | 64);
  for (int i = 0; i < 8; ++i) {
    const Peek peek = reader_->recv_peek(unicast(Rank(0)), kLargeSlot, mix64(static_cast<std::uint64_t>(i)));
    if (peek.state != PeekState::kReady) continue;
    ASSERT_GE(peek.data, segments_[0]->data() + first);
    ASSERT_LT(peek.data, segments_[0]->data() + end);
  }
}

}  // namespace
}  // namespace tutti::testing_traffic
