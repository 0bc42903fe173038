// Covers comm/turn_queue.cc.
// The order of calls by tickets.
#include "comm/turn_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace tutti {
namespace {

TEST(TurnQueues, GoInTheOrderOfTickets) {
  TurnQueue turns;
  EXPECT_TRUE(turns.is_empty());
  const std::uint64_t first = turns.take();
  const std::uint64_t second = turns.take();
  EXPECT_TRUE(turns.is_turn(first));
  EXPECT_FALSE(turns.is_turn(second));
  turns.end(first);
  EXPECT_TRUE(turns.is_turn(second));
  EXPECT_FALSE(turns.is_empty());
  turns.end(second);
  EXPECT_TRUE(turns.is_empty());
}

TEST(TurnQueues, ATicketGoesBackIfItIsTheNewest) {
  TurnQueue turns;
  const std::uint64_t first = turns.take();
  const std::uint64_t second = turns.take();
  turns.give_back(first);  // somebody waits after it
  EXPECT_FALSE(turns.is_empty());
  turns.give_back(second);
  turns.give_back(first);
  EXPECT_TRUE(turns.is_empty());
  EXPECT_EQ(turns.take(), first);
}

TEST(TurnQueues, WhoGivesUpIsPassedOver) {
  TurnQueue turns;
  const std::uint64_t running = turns.take();
  const std::uint64_t second = turns.take();
  const std::uint64_t third = turns.take();
  const std::uint64_t last = turns.take();
  turns.give_up(third);
  turns.give_up(second);
  EXPECT_TRUE(turns.is_turn(running)) << "what runs is not ended by that";
  turns.end(running);
  turns.notify();
  EXPECT_TRUE(turns.is_turn(last));
}

TEST(TurnQueues, NumbersGoOnAfterThoseThatAreQueued) {
  TurnQueue turns;
  EXPECT_EQ(turns.next_number(), 1u);
  const std::uint64_t first = turns.take(true);
  const std::uint64_t second = turns.take(true);
  EXPECT_EQ(turns.next_number(), 3u);
  EXPECT_EQ(turns.begin_number(), 1u);
  turns.end(first);
  EXPECT_EQ(turns.next_number(), 3u);
  EXPECT_EQ(turns.begin_number(), 2u);
  turns.end(second);
  EXPECT_EQ(turns.number(), 2u);
  EXPECT_EQ(turns.next_number(), 3u);
}

TEST(TurnQueues, AWaitEndsWithTheLastOperationOrByItsTime) {
  TurnQueue turns;
  EXPECT_TRUE(turns.wait_for_end(std::chrono::hours(1))) << "there is nothing to wait for";
  const std::uint64_t ticket = turns.take();
  EXPECT_FALSE(turns.wait_for_end(std::chrono::milliseconds(1)));
  std::atomic<bool> ended{false};
  std::thread runner([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ended.store(true);
    turns.end(ticket);
    turns.notify();
  });
  while (!turns.wait_for_end(std::chrono::hours(1))) continue;
  EXPECT_TRUE(ended.load());
  runner.join();
}

}  // namespace
}  // namespace tutti
