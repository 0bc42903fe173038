// Covers transport/tcp/tcp.cc, transport/tcp/tcp_link.cc, transport/tcp/tcp_inbox.cc, transport/tcp/tcp_outbox.cc,
// transport/tcp/tcp_memory.h.
// When a reader writes that it has released messages, and how many slots messages need.
#include <gtest/gtest.h>

#include "transport/tcp_fabric.h"

namespace tutti::testing_traffic {
namespace {

constexpr WorldSize kSize{3, 1};
constexpr Bytes kSmall{8};
constexpr Bytes kLarge = kSize.max_message;

/// Two ends with a connection, on which a message has gone each way, and nothing more waits to be written.
class TcpReleases : public ::testing::Test {
 protected:
  explicit TcpReleases(const TcpFabric::Connect& connect = tcp_pair) : fabric(kSize.ranks, connect) {
    exchange(kSmall);
    poll_until("the end of a call", [&] { return first->references_released(&late); });
    poll_until("the end of a call", [&] { return second->references_released(&late); });
  }

  /// A message of `bytes` from the first to the second, and then a small one back.
  void exchange(Bytes bytes) {
    send(*first, unicast(Rank{1}), bytes, 1);
    poll_until("a message", [&] { return first->look_around(), try_receive(*second, unicast(Rank{0}), bytes, 1); });
    send(*second, unicast(Rank{0}), kSmall, 2);
    receive(*first, unicast(Rank{1}), kSmall, 2);
  }
  void lend() {
    fill(lent.data(), kLarge, 3);
    ASSERT_EQ(first->send_reference(unicast(Rank{1}), lent.data(), kLarge, mix64(3)), ReferenceState::kSent);
  }
  /// The first lends a message, and the second has it.
  void lend_and_receive() {
    lend();
    poll_until("what was lent", [&] { return first->look_around(), try_look(*second, unicast(Rank{0}), kLarge, 3); });
  }
  /// How many bytes the second moves while it does this.
  std::uint64_t moved_by(const std::function<void()>& action) {
    const std::uint64_t before = second->bytes_moved();
    action();
    return second->bytes_moved() - before;
  }

  TcpFabric fabric;
  std::unique_ptr<TcpEndpoint> first = open_tcp(fabric, kSize, Rank{0});
  const std::unique_ptr<TcpEndpoint> second = open_tcp(fabric, kSize, Rank{1});
  const std::unique_ptr<TcpEndpoint> third = open_tcp(fabric, kSize, Rank{2});
  std::vector<std::byte> lent = std::vector<std::byte>(kLarge.value);
  Rank late = kNoRank;
};

TEST_F(TcpReleases, OfWhatWasLentTravelWithTheNextMessage) {
  lend_and_receive();
  EXPECT_EQ(moved_by([&] { second->recv_release(unicast(Rank{0}), kLarge); }), 0u) << "it may have a message soon";
  EXPECT_FALSE(first->references_released(&late));
  EXPECT_EQ(moved_by([&] { send(*second, unicast(Rank{0}), kSmall, 4); }), TcpFrame::kBytes + kSmall.value);
  receive(*first, unicast(Rank{1}), kSmall, 4);
  EXPECT_TRUE(first->references_released(&late));
  EXPECT_EQ(moved_by([&] { second->look_around(); }), 0u) << "it has been written already";
}

TEST_F(TcpReleases, OfWhatWasLentAreWrittenWhenThereIsNothingElseToDo) {
  lend_and_receive();
  second->recv_release(unicast(Rank{0}), kLarge);
  const auto look_in_vain = [&] { EXPECT_EQ(second->recv_peek(unicast(Rank{0}), kSmall, 5).state, PeekState::kAgain); };
  EXPECT_EQ(moved_by(look_in_vain), TcpFrame::kBytes);
  poll_until("the release", [&] { return first->references_released(&late); });
}

TEST_F(TcpReleases, OfWhatWasLentAreWrittenBeforeACallEnds) {
  lend_and_receive();
  second->recv_release(unicast(Rank{0}), kLarge);
  const auto end_call = [&] { EXPECT_TRUE(second->references_released(&late)) << "it has lent nothing itself"; };
  EXPECT_EQ(moved_by(end_call), TcpFrame::kBytes);
  poll_until("the release", [&] { return first->references_released(&late); });
}

// Like the root of a gather.
TEST_F(TcpReleases, OfWhatWasLentAreWrittenBeforeAnotherPeersMessageIsRead) {
  send(*third, unicast(Rank{1}), kSmall, 6);
  poll_until("the third's", [&] { return third->look_around(), try_look(*second, unicast(Rank{2}), kSmall, 6); });
  lend_and_receive();
  second->recv_release(unicast(Rank{0}), kLarge);
  EXPECT_EQ(moved_by([&] { receive(*second, unicast(Rank{2}), kSmall, 6); }), TcpFrame::kBytes);
  poll_until("the release", [&] { return first->references_released(&late); });
}

// Like a rank that has reduced messages of several peers at once, and then reads from one of them only.
TEST_F(TcpReleases, OfWhatWasLentAreWrittenThoughAnotherPeersMessagesAreReady) {
  for (const std::uint64_t number : {6, 7}) send(*third, unicast(Rank{1}), kSmall, number);
  poll_until("the third's first", [&] {
    const bool written = third->references_released(&late);
    return try_look(*second, unicast(Rank{2}), kSmall, 6) && written;
  });
  second->make_progress();  // reads the other one
  lend_and_receive();
  ASSERT_TRUE(try_look(*second, unicast(Rank{2}), kSmall, 6));
  second->recv_release(unicast(Rank{0}), kLarge);
  second->recv_release(unicast(Rank{2}), kSmall);
  EXPECT_EQ(moved_by([&] { receive(*second, unicast(Rank{2}), kSmall, 7); }), TcpFrame::kBytes);
  poll_until("the release", [&] { return first->references_released(&late); });
}

TEST_F(TcpReleases, AreWrittenAtOnceWhileHalfOfTheCreditsAreLeft) {
  const auto half = static_cast<std::uint64_t>(second->capabilities().credits / 2);
  for (std::uint64_t number = 1; number <= half; ++number) send(*first, unicast(Rank{1}), kSmall, number);
  for (std::uint64_t number = 1; number <= half; ++number) {
    poll_until("a message", [&] { return try_look(*second, unicast(Rank{0}), kSmall, number); });
    const std::uint64_t expected = number == half ? std::uint64_t{TcpFrame::kBytes} : 0;
    EXPECT_EQ(moved_by([&] { second->recv_release(unicast(Rank{0}), kSmall); }), expected) << number;
  }
}

TEST_F(TcpReleases, OfWhatWasLentAreWrittenAtOnceWhileHalfOfTheCreditsAreLeft) {
  const auto half = static_cast<std::uint64_t>(second->capabilities().credits / 2);
  const std::uint64_t before = second->bytes_moved();
  for (std::uint64_t number = 1; number <= half; ++number) lend();
  poll_until("what was lent", [&] {
    first->look_around();
    second->make_progress();
    return second->bytes_moved() - before == half * (TcpFrame::kBytes + kLarge.value);
  });
  for (std::uint64_t number = 1; number <= half; ++number) {
    ASSERT_TRUE(try_look(*second, unicast(Rank{0}), kLarge, 3)) << number;
    const std::uint64_t expected = number == half ? std::uint64_t{TcpFrame::kBytes} : 0;
    EXPECT_EQ(moved_by([&] { second->recv_release(unicast(Rank{0}), kLarge); }), expected) << number;
  }
}

// All that a call had to write is written: it need not wait for a new connection.
TEST_F(TcpReleases, ThatAMessageTookAlongAreNotWaitedWith) {
  lend_and_receive();
  second->recv_release(unicast(Rank{0}), kLarge);
  send(*second, unicast(Rank{0}), kSmall, 4);
  first.reset();
  EXPECT_FALSE(second->hears(Rank{0}));
  EXPECT_TRUE(second->references_released(&late));
}

TEST_F(TcpReleases, GiveSlotsBackForTheNextMessages) {
  exchange(kLarge);
  exchange(kLarge);
  const std::size_t of_first = first->memory_bytes(), of_second = second->memory_bytes();
  EXPECT_GE(of_first, kLarge.value);
  EXPECT_GE(of_second, kLarge.value);
  for (int round = 0; round < 20; ++round) exchange(round % 3 == 0 ? kSmall : kLarge);
  EXPECT_EQ(first->memory_bytes(), of_first) << "one message at a time needs one slot";
  EXPECT_EQ(second->memory_bytes(), of_second) << "one message at a time needs one slot";
}

/// The third of three ranks reads what the first sends to all later than the second does. Its connection does not take
/// a large message as a whole.
class TcpMulticastSlots : public TcpReleases {
 protected:
  TcpMulticastSlots() : TcpReleases(narrow_tcp_pair) {}
  void send_to_all(std::uint64_t number) { send(*first, multicast_to_all(), kLarge, number); }
  void receive_by(TcpEndpoint& reader, std::uint64_t number) {
    poll_until("a message to all", [&] {
      first->look_around();
      return try_receive(reader, multicast_from(Rank{0}), kLarge, number);
    });
  }
  /// Tells the first what the reader has released.
  void answer(TcpEndpoint& reader, Rank rank) {
    send(reader, unicast(Rank{0}), kSmall, 9);
    receive(*first, unicast(rank), kSmall, 9);
  }
};

TEST_F(TcpMulticastSlots, AreUsedAgainOnceAllReadersHaveReleasedThem) {
  const auto round = [&](std::uint64_t number) {
    send_to_all(number);
    receive_by(*second, number);
    receive_by(*third, number);
    answer(*second, Rank{1});
    answer(*third, Rank{2});
  };
  round(1);
  const std::size_t of_first = first->memory_bytes();
  EXPECT_GE(of_first, kLarge.value);
  for (std::uint64_t number = 2; number <= 20; ++number) round(number);
  EXPECT_EQ(first->memory_bytes(), of_first) << "one message at a time needs one slot";
  send(*first, multicast_to_all(), kSmall, 21);
  EXPECT_GT(first->memory_bytes(), of_first) << "a slot that holds no message is memory, too";
}

TEST_F(TcpMulticastSlots, AreNotUsedAgainWhileOneReaderHasNotReleasedThem) {
  for (std::uint64_t number = 1; number <= 3; ++number) {
    send_to_all(number);
    receive_by(*second, number);
    answer(*second, Rank{1});
  }
  for (std::uint64_t number = 1; number <= 3; ++number) receive_by(*third, number);
}

}  // namespace
}  // namespace tutti::testing_traffic
