#include "core/call_board.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <set>
#include <thread>

#include "comm/culprit.h"
#include "support/patience.h"

namespace tutti::test {
namespace {

std::unique_ptr<CallBoard> empty_board() {
  // As in a fresh segment: zero bytes.
  return std::unique_ptr<CallBoard>(new CallBoard());
}

Call call_number(std::uint64_t sequence, std::uint64_t count = 10) {
  Call call;
  call.sequence = sequence;
  call.count = count;
  call.collective = Collective::kAllReduce;
  call.type = DataType::kFloat32;
  call.op = RedOp::kMax;
  return call;
}

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
  board->wait_for(Rank{2});
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

class Culprits : public ::testing::Test {
 protected:
  Culprits() {
    for (auto& board : boards_) board = empty_board();
  }
  BoardReader reader() const {
    return [this](Rank rank) -> const CallBoard* {
      return rank.value == hidden_ ? nullptr : boards_[static_cast<std::size_t>(rank.value)].get();
    };
  }
  CallBoard& board(int rank) { return *boards_[static_cast<std::size_t>(rank)]; }
  std::unique_ptr<CallBoard> boards_[5];
  int hidden_ = -1;
};

TEST_F(Culprits, TheEndOfTheChainIsNamed) {
  for (const int rank : {0, 1, 2, 3}) board(rank).begin(call_number(7));
  board(0).wait_for(Rank{1});
  board(1).wait_for(Rank{2});
  board(2).wait_for(Rank{4});
  board(4).begin(call_number(6));
  board(4).end(6);
  const Culprit culprit = find_culprit(call_number(7), Rank{1}, 5, reader());
  EXPECT_EQ(culprit.rank, Rank{4});
  EXPECT_NE(culprit.what.find("rank 4 has not called all_reduce"), std::string::npos) << culprit.what;
  EXPECT_EQ(missing_ranks(call_number(7), Rank{0}, 5, reader()), "rank 4");
}

// Rank 1 is late because it waits in an older call for rank 2, which has not finished that.
TEST_F(Culprits, WhoHoldsUpALateRankIsNamed) {
  board(1).begin(call_number(6));
  board(1).wait_for(Rank{2});
  board(2).begin(call_number(6));
  const Culprit culprit = find_culprit(call_number(7), Rank{1}, 3, reader());
  EXPECT_EQ(culprit.rank, Rank{2});
  EXPECT_NE(culprit.what.find("it is still in"), std::string::npos) << culprit.what;
  board(2).end(6);  // what rank 1 waited for has come: it is rank 1 that does not go on
  EXPECT_EQ(find_culprit(call_number(7), Rank{1}, 3, reader()).rank, Rank{1});
  board(2).begin(call_number(7));
  EXPECT_EQ(find_culprit(call_number(7), Rank{1}, 3, reader()).rank, Rank{1});
}

TEST_F(Culprits, ARankThatDoesNotMoveIsNamed) {
  for (const int rank : {0, 1, 2}) board(rank).begin(call_number(7));
  board(1).wait_for(Rank{2});
  const Culprit culprit = find_culprit(call_number(7), Rank{1}, 3, reader());
  EXPECT_EQ(culprit.rank, Rank{2});
  EXPECT_NE(culprit.what.find("does not move"), std::string::npos) << culprit.what;
}

TEST_F(Culprits, ForAKernelTheRankThatHasNotComeIsNamedNotTheOneThatIsThere) {
  for (const int rank : {0, 1, 3}) board(rank).begin(call_number(7));
  const Culprit culprit = find_absent(call_number(7), Rank{1}, Rank{0}, 4, reader());
  EXPECT_EQ(culprit.rank, Rank{2});
  EXPECT_NE(culprit.what.find("rank 2 has not called all_reduce"), std::string::npos) << culprit.what;
  board(2).begin(call_number(7));
  EXPECT_EQ(find_absent(call_number(7), Rank{1}, Rank{0}, 4, reader()).rank, Rank{0});
}

TEST_F(Culprits, CirclesAndUnreadableBoardsEnd) {
  for (const int rank : {0, 1, 2}) board(rank).begin(call_number(7));
  board(1).wait_for(Rank{2});
  board(2).wait_for(Rank{1});
  EXPECT_EQ(find_culprit(call_number(7), Rank{1}, 3, reader()).rank, Rank{1});
  hidden_ = 1;
  EXPECT_EQ(find_culprit(call_number(7), Rank{1}, 3, reader()).rank, Rank{1});
}

TEST_F(Culprits, GarbageOnABoardNamesNoRankThatIsNotThere) {
  board(1).begin(call_number(7));
  for (const int garbage :
       {1'000'000, -1'000'001, 3, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()}) {
    board(1).begin(call_number(7));
    board(1).wait_for(Rank{garbage});
    EXPECT_EQ(find_culprit(call_number(7), Rank{1}, 3, reader()).rank, Rank{1}) << garbage;
    EXPECT_FALSE(waits_in_circle(Rank{0}, Rank{1}, 3, reader())) << garbage;
    board(1).begin_peers(6);
    EXPECT_EQ(find_culprit(call_number(7), Rank{1}, 3, reader()).rank, Rank{1}) << garbage;
    EXPECT_EQ(find_silent_peer(Rank{0}, Rank{1}, 3, reader()).rank, Rank{1}) << garbage;
  }
}

TEST_F(Culprits, DisagreementsAreFoundNowAndInThePast) {
  for (std::uint64_t sequence = 1; sequence <= 9; ++sequence) {
    board(0).begin(call_number(sequence));
    board(1).begin(call_number(sequence, sequence >= 4 ? 99 : 10));
  }
  const Disagreement now = find_disagreement(call_number(9), Rank{0}, 2, reader());
  EXPECT_EQ(now.rank, Rank{1});
  EXPECT_EQ(now.call.count, 99u);
  Call mine = call_number(9);
  const Disagreement first = find_first_disagreement(&mine, Rank{1}, board(0), reader());
  EXPECT_EQ(first.rank, Rank{1});
  EXPECT_EQ(mine.sequence, 4u);
  EXPECT_EQ(find_disagreement(call_number(3), Rank{0}, 2, reader()).rank, kNoRank);
}

}  // namespace
}  // namespace tutti::test
