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
}

TEST_F(ShmSlots, AFaultyPeersNumberLeadsAReaderToASlot) {
  const ShmLayout layout(kRingGeometry);
  std::byte* const segment = segments_[0]->data();
  auto* const headers = reinterpret_cast<MessageHeader*>(segment + layout.headers(1, 0, RingKind::kSlots));
  const std::size_t first = layout.payloads(1, 0, RingKind::kSlots);
  ASSERT_NE(send(unicast(Rank(1)), kLargeSlot), nullptr);
  for (const std::uint64_t number : {std::uint64_t{8}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    headers[0].set_slot(number);
    const Peek peek = reader_->recv_peek(unicast(Rank(0)), kLargeSlot, mix64(0));
    ASSERT_EQ(peek.state, PeekState::kReady);
    EXPECT_GE(peek.data, segment + first);
    EXPECT_LT(peek.data, segment + first + layout.slots() * layout.payload_stride(RingKind::kSlots));
  }
}

/// A ring of four slots of 64 bytes in plain memory.
struct PlainRing {
  MessageHeader headers[4] = {};
  std::byte slots[4 * 64] = {};
  SendRing ring{RingMemory{headers, slots, 64, 3}, 0, 4, nullptr, FreeSlots(4)};

  std::ptrdiff_t claim(Bytes bytes) { return (ring.claim_slot(bytes.value) - slots) / 64; }
  std::ptrdiff_t send(Bytes bytes) {
    const std::ptrdiff_t slot = claim(bytes);
    ring.commit_slot(bytes.value, 1);
    return slot;
  }
  /// The address looks like the number of that slot.
  void send_reference(std::uintptr_t slot) {
    ring.commit_reference(reinterpret_cast<const std::byte*>(0x1000 + slot), kLargeSlot.value, 1);
  }
  void release(std::uint64_t before) { ring.set_released(before, RingKind::kSlots); }
};

TEST(SlotRing, AReferenceGivesNoSlotBack) {
  PlainRing plain;
  EXPECT_EQ(plain.send(kLargeSlot), 0);
  plain.send_reference(1);
  EXPECT_EQ(plain.send(kLargeSlot), 1);
  plain.release(2);
  EXPECT_EQ(plain.send(kLargeSlot), 0);
  EXPECT_EQ(plain.send(kLargeSlot), 2) << "the message in slot 1 is still under way";
}

TEST(SlotRing, AGivenUpClaimKeepsNobodyFromLooking) {
  PlainRing plain;
  EXPECT_EQ(plain.claim(kLargeSlot), 0);
  for (int i = 0; i < 4; ++i) plain.send_reference(0);
  EXPECT_FALSE(plain.ring.has_credit());
  EXPECT_TRUE(plain.ring.should_look_for_slots(kLargeSlot.value));
  plain.release(4);
  EXPECT_TRUE(plain.ring.has_credit());
  EXPECT_EQ(plain.claim(kSmallSlot), 0) << "a claim stays where it is";
}

TEST(SlotRing, SmallerMessagesBeginAtTheSlotOfTheirPosition) {
  PlainRing plain;
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(plain.send(kLargeSlot), 0);
    plain.release(i + 1);
  }
  EXPECT_EQ(plain.send(kSmallSlot), 3);
  EXPECT_EQ(plain.send(kSmallSlot), 0);
  EXPECT_EQ(plain.send(kLargeSlot), 1);
  EXPECT_EQ(plain.send(kSmallSlot), 2);
}

TEST(FreeSlots, AreAsManyAsWereMade) {
  for (const std::uint64_t count : {2u, 4u, 64u}) {
    FreeSlots slots(count);
    const auto mask = static_cast<std::uint32_t>(count - 1);
    for (std::uint64_t slot = 0; slot < count; ++slot) {
      EXPECT_EQ(slots.claim(true, 0, mask), slot);
      EXPECT_EQ(slots.take(), slot);
    }
    EXPECT_LT(slots.claim(true, 0, mask), count) << "a faulty peer's count promised one more";
    EXPECT_LT(slots.take(), count);
  }
}

TEST(FreeSlots, AClaimStaysIfALowerOneIsGivenBack) {
  FreeSlots slots(4);
  EXPECT_EQ(slots.claim(true, 0, 3), 0u);
  slots.take();
  EXPECT_EQ(slots.claim(true, 0, 3), 1u);
  slots.give_back(0);
  EXPECT_EQ(slots.claim(true, 0, 3), 1u);
}

}  // namespace
}  // namespace tutti::testing_traffic
