// Covers transport/tcp/tcp.cc, transport/tcp/tcp_link.cc.
// The ends of a tcp link's life: a peer that has not begun, one that is gone, and when this end may close.
#include <gtest/gtest.h>

#include "transport/tcp_fabric.h"

namespace tutti::testing_traffic {
namespace {

constexpr WorldSize kTwo{2, 1};

/// Sends as much as there are credits for.
int send_all(TcpEndpoint& endpoint, Rank to, Bytes bytes) {
  int sent = 0;
  while (std::byte* const slot = endpoint.send_claim(unicast(to), bytes)) {
    std::memset(slot, sent, bytes.value);
    endpoint.send_commit(unicast(to), bytes, static_cast<Fingerprint>(++sent));
  }
  return sent;
}

bool take(TcpEndpoint& endpoint, Rank from, Bytes bytes, int number) {
  if (endpoint.recv_peek(unicast(from), bytes, static_cast<Fingerprint>(number)).state != PeekState::kReady)
    return false;
  endpoint.recv_release(unicast(from), bytes);
  return true;
}

// The socket takes more at any time, but the peer has to speak first: that must not end the sleep.
TEST(TimedTcpEnds, WhoWaitsForAPeerThatHasNotBegunSleeps) {
  TcpFabric fabric(2);
  const auto first = open_tcp(fabric, kTwo, Rank{0});
  ASSERT_GT(send_all(*first, Rank{1}, Bytes{8}), 0);
  Rank late = kNoRank;
  EXPECT_FALSE(first->references_released(&late));
  EXPECT_EQ(late, Rank{1});
  first->sleep(std::chrono::milliseconds(1));  // the ring of the stream's arrival
  const auto begin = Clock::now();
  first->sleep(std::chrono::milliseconds(100));
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(100));
}

TEST(TcpEnds, NothingIsOwedToAPeerThatIsGone) {
  TcpFabric fabric(2);
  auto first = open_tcp(fabric, kTwo, Rank{0});
  const auto second = open_tcp(fabric, kTwo, Rank{1});
  Rank late = kNoRank;
  const int sent = send_all(*first, Rank{1}, Bytes{8});
  poll_until("a message", [&] {
    const bool came = second->recv_peek(unicast(Rank{0}), Bytes{8}, 1).state == PeekState::kReady;
    return first->references_released(&late) && came;
  });
  second->make_progress();
  fabric.end(Rank{0});
  first.reset();
  second->make_progress();  // finds the connection closed
  for (int number = 1; number <= sent; ++number) EXPECT_TRUE(take(*second, Rank{0}, Bytes{8}, number)) << number;
  EXPECT_TRUE(second->references_released(&late)) << "waits for rank " << late.value;
}

// What a dead process sent comes as long as its system has the connection open; only then is it heard no more.
TEST(TcpEnds, TheDeadAreHeardToTheEndOfTheConnection) {
  TcpFabric fabric(2);
  auto first = open_tcp(fabric, kTwo, Rank{0});
  const auto second = open_tcp(fabric, kTwo, Rank{1});
  EXPECT_FALSE(second->hears(Rank{0})) << "there is no connection";
  const Bytes size = second->capabilities().max_message;
  const int sent = send_all(*first, Rank{1}, size);
  Rank late = kNoRank;
  int number = 1;
  for (; number < sent; ++number)
    poll_until("a message", [&] { return first->delivered(&late), take(*second, Rank{0}, size, number); });
  fabric.end(Rank{0});
  EXPECT_TRUE(second->hears(Rank{0}));
  EXPECT_FALSE(second->hears(Rank{1}));
  poll_until("the last message", [&] { return first->delivered(&late), second->hears(Rank{0}), late == kNoRank; });
  first.reset();
  poll_until("the end", [&] { return !second->hears(Rank{0}); });
  EXPECT_TRUE(take(*second, Rank{0}, size, number)) << "what came before the end is there";
}

TEST(TcpEnds, MayCloseWhenAllIsAcknowledged) {
  TcpFabric fabric(2);
  const auto first = open_tcp(fabric, kTwo, Rank{0});
  const auto second = open_tcp(fabric, kTwo, Rank{1});
  const Bytes size = second->capabilities().max_message;
  Rank late = kNoRank;
  EXPECT_TRUE(first->delivered(&late)) << "nothing was sent";
  const int sent = send_all(*first, Rank{1}, size);
  EXPECT_FALSE(first->delivered(&late)) << "nobody has received anything";
  EXPECT_EQ(late, Rank{1});
  EXPECT_FALSE(first->delivered(&late, [](Rank reader, Lane lane) { return reader == Rank{1} && lane == Lane{0}; }));
  EXPECT_TRUE(first->delivered(&late, [](Rank, Lane lane) { return lane != Lane{0}; })) << "nothing was sent there";
  EXPECT_TRUE(first->delivered(&late, [](Rank reader, Lane) { return reader != Rank{1}; })) << "it receives nothing";
  for (int number = 1; number < sent; ++number)
    poll_until("a message", [&] { return first->delivered(&late), take(*second, Rank{0}, size, number); });
  poll_until("the last message", [&] { return second->make_progress(), first->delivered(&late); });
  EXPECT_TRUE(take(*second, Rank{0}, size, sent)) << "delivered, but not released";
}

}  // namespace
}  // namespace tutti::testing_traffic
