// Covers core/call_board.cc, core/fingerprint.h.
#include "core/call_board.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "support/calls.h"
#include "support/patience.h"

namespace tutti::test {
namespace {

TEST(Fingerprint, DiffersInEveryField) {
  const Call base = call_number(5);
  std::set<Fingerprint> seen{fingerprint_of(base)};
  const auto differs = [&](auto change) {
    Call other = base;
    change(other);
    EXPECT_TRUE(seen.insert(fingerprint_of(other) & 0xffffffffffff).second);
  };
  differs([](Call& c) { c.sequence = 6; });
  differs([](Call& c) { c.count = 11; });
  differs([](Call& c) { c.collective = Collective::kReduce; });
  differs([](Call& c) { c.type = DataType::kInt32; });
  differs([](Call& c) { c.op = RedOp::kMin; });
  differs([](Call& c) { c.root = Rank{0}; });
  for (std::uint64_t sequence = 100; sequence < 20'000; ++sequence)
    EXPECT_TRUE(seen.insert(fingerprint_of(call_number(sequence)) & 0xffffffffffff).second);
}

TEST(CallBoard, ShowsWhatWasPosted) {
  const auto board = empty_board();
  EXPECT_EQ(board->state().sequence, 0u);
  EXPECT_EQ(board->state().waiting_for, kNoRank);
  EXPECT_FALSE(board->find(1).known);
  Call call = call_number(1);
  call.root = Rank{3};
  board->begin(call);
  board->post_awaited(Rank{2});
  EXPECT_EQ(board->state().state, CallState::kRunning);
  EXPECT_EQ(board->state().waiting_for, Rank{2});
  const PostedCall posted = board->find(1);
  ASSERT_TRUE(posted.known);
  EXPECT_EQ(fingerprint_of(posted.call), fingerprint_of(call));
  EXPECT_EQ(posted.call.root, Rank{3});
  board->end(1);
  EXPECT_EQ(board->state().state, CallState::kDone);
  EXPECT_EQ(board->state().waiting_for, kNoRank) << "who is done waits for nobody";
}

TEST(CallBoard, ForgetsTheOldestCallOnly) {
  const auto board = empty_board();
  for (std::uint64_t sequence = 1; sequence <= CallBoard::kHistory + 1; ++sequence)
    board->begin(call_number(sequence, sequence * 2));
  EXPECT_FALSE(board->find(1).known);
  for (std::uint64_t sequence = 2; sequence <= CallBoard::kHistory + 1; ++sequence) {
    ASSERT_TRUE(board->find(sequence).known);
    EXPECT_EQ(board->find(sequence).call.count, sequence * 2);
  }
}

// What a reader gets while the writer goes on is either right or unknown, never a mixture.
TEST(CallBoard, IsNeverReadTorn) {
  const auto board = empty_board();
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (std::uint64_t sequence = 1; !stop; ++sequence) {
      board->begin(call_number(sequence, sequence * 3));
      board->end(sequence);
    }
  });
  int known = 0;
  // On a busy machine the writer may start late: read until something was seen.
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  for (int i = 0; i < 200'000 || (known == 0 && std::chrono::steady_clock::now() < give_up); ++i) {
    const std::uint64_t newest = board->state().sequence;
    const std::uint64_t wanted = newest > 60 ? newest - 60 : newest;  // about to be overwritten
    const PostedCall posted = board->find(wanted);
    if (!posted.known) continue;
    ++known;
    ASSERT_EQ(posted.call.count, wanted * 3);
  }
  stop = true;
  writer.join();
  EXPECT_GT(known, 0);
}

}  // namespace
}  // namespace tutti::test
