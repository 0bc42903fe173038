// Covers comm/failure/culprit.cc.
#include "comm/failure/culprit.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>

#include "support/calls.h"

namespace tutti::test {
namespace {

class Culprits : public ::testing::Test {
 protected:
  Culprits() {
    for (auto& board : boards_) board = empty_board();
  }
  PeerView view(int ranks, Rank self = Rank{0}) const {
    return {self, ranks,
            [this](Rank rank) -> const CallBoard* {
              return rank.value == hidden_ ? nullptr : boards_[static_cast<std::size_t>(rank.value)].get();
            },
            [this](Rank rank) { return unanswered_[rank.value]; }};
  }
  CallBoard& board(int rank) { return *boards_[static_cast<std::size_t>(rank)]; }
  std::unique_ptr<CallBoard> boards_[8];
  int hidden_ = -1;
  Clock::duration unanswered_[8] = {};
};

TEST_F(Culprits, TheEndOfTheChainIsNamed) {
  for (const int rank : {0, 1, 2, 3}) board(rank).begin(call_number(7));
  board(0).post_awaited(Rank{1});
  board(1).post_awaited(Rank{2});
  board(2).post_awaited(Rank{4});
  board(4).begin(call_number(6));
  board(4).end(6);
  const Culprit culprit = find_culprit(call_number(7), Rank{1}, view(5));
  EXPECT_EQ(culprit.rank, Rank{4});
  EXPECT_NE(culprit.what.find("rank 4 has not called all_reduce"), std::string::npos) << culprit.what;
  EXPECT_EQ(missing_ranks(call_number(7), view(5)), "rank 4");
}

// Rank 1 is late because it waits in an older call for rank 2, which has not finished that.
TEST_F(Culprits, WhoHoldsUpALateRankIsNamed) {
  board(1).begin(call_number(6));
  board(1).post_awaited(Rank{2});
  board(2).begin(call_number(6));
  const Culprit culprit = find_culprit(call_number(7), Rank{1}, view(3));
  EXPECT_EQ(culprit.rank, Rank{2});
  EXPECT_NE(culprit.what.find("it is still in"), std::string::npos) << culprit.what;
  board(2).end(6);  // what rank 1 waited for has come: it is rank 1 that does not go on
  EXPECT_EQ(find_culprit(call_number(7), Rank{1}, view(3)).rank, Rank{1});
  board(2).begin(call_number(7));
  EXPECT_EQ(find_culprit(call_number(7), Rank{1}, view(3)).rank, Rank{1});
}

TEST_F(Culprits, ARankThatDoesNotMoveIsNamed) {
  for (const int rank : {0, 1, 2}) board(rank).begin(call_number(7));
  board(1).post_awaited(Rank{2});
  const Culprit culprit = find_culprit(call_number(7), Rank{1}, view(3));
  EXPECT_EQ(culprit.rank, Rank{2});
  EXPECT_NE(culprit.what.find("does not move"), std::string::npos) << culprit.what;
}

TEST_F(Culprits, ForAKernelTheRankThatHasNotComeIsNamedNotTheOneThatIsThere) {
  for (const int rank : {0, 1, 3}) board(rank).begin(call_number(7));
  board(2).open();
  const Culprit culprit = find_absent(call_number(7), Rank{0}, view(4, Rank{1}));
  EXPECT_EQ(culprit.rank, Rank{2});
  EXPECT_NE(culprit.what.find("rank 2 has not called all_reduce"), std::string::npos) << culprit.what;
  board(2).begin(call_number(7));
  EXPECT_EQ(find_absent(call_number(7), Rank{0}, view(4, Rank{1})).rank, Rank{0});
}

TEST_F(Culprits, CirclesAndUnreadableBoardsEnd) {
  for (const int rank : {0, 1, 2}) board(rank).begin(call_number(7));
  board(1).post_awaited(Rank{2});
  board(2).post_awaited(Rank{1});
  EXPECT_EQ(find_culprit(call_number(7), Rank{1}, view(3)).rank, Rank{1});
  hidden_ = 1;
  EXPECT_EQ(find_culprit(call_number(7), Rank{1}, view(3)).rank, Rank{1});
}

// Each board names the lowest of the ranks that its writer waits for, so that ranks 0 and 1 name each other. Rank 2 was
// stopped where it waited for rank 0.
TEST_F(Culprits, WhoDoesNotAnswerIsNamedWhereOthersNameEachOther) {
  for (const int rank : {0, 1, 2}) board(rank).begin(call_number(7));
  board(0).post_awaited(Rank{1});
  board(1).post_awaited(Rank{0});
  board(2).post_awaited(Rank{0});
  unanswered_[1] = kAnswerTime / 2;  // slow, on a busy machine
  unanswered_[2] = 2 * kAnswerTime;
  const auto expect_named = [](const Culprit& culprit) {
    EXPECT_EQ(culprit.rank, Rank{2});
    EXPECT_NE(culprit.what.find("rank 2 does not answer"), std::string::npos) << culprit.what;
    EXPECT_NE(culprit.what.find("it is still in all_reduce"), std::string::npos) << culprit.what;
  };
  expect_named(find_culprit(call_number(7), Rank{1}, view(3)));
  expect_named(find_culprit(call_number(7), Rank{2}, view(3)));  // the chain ends there
  expect_named(find_silent_peer(Rank{1}, view(3, Rank{4})));
  board(1).post_awaited(kNoRank);  // it is at work, and does not hold up anybody
  expect_named(find_culprit(call_number(7), Rank{1}, view(3)));
  unanswered_[1] = 3 * kAnswerTime;  // of two, who has not answered for longer
  board(1).post_awaited(Rank{0});
  EXPECT_EQ(find_culprit(call_number(7), kNoRank, view(3)).rank, Rank{1});
  board(2).end(7);  // it has finished this call, so nobody waits for it
  unanswered_[1] = {};
  EXPECT_NE(find_culprit(call_number(7), Rank{1}, view(3)).rank, Rank{2});
}

TEST_F(Culprits, WhoMayTakeLongerToAnswerIsNotNamedForIt) {
  for (const int rank : {0, 1}) board(rank).begin(call_number(7));
  board(1).post_awaited(Rank{2});
  board(2).begin(call_number(6));
  unanswered_[1] = 2 * kAnswerTime;
  PeerView patient = view(3);
  EXPECT_EQ(find_culprit(call_number(7), Rank{1}, patient).rank, Rank{1});
  patient.answer_time = 3 * kAnswerTime;
  EXPECT_EQ(find_culprit(call_number(7), Rank{1}, patient).rank, Rank{2});
}

TEST_F(Culprits, ManyRanksOfWhichNothingWasHeardAreCounted) {
  for (const int rank : {0, 1}) board(rank).begin(call_number(7));
  EXPECT_NE(find_culprit(call_number(7), Rank{1}, view(6)).what.find("heard of ranks 2, 3, 4 and 5"),
            std::string::npos);
  EXPECT_NE(find_culprit(call_number(7), Rank{1}, view(8)).what.find("heard of 6 more ranks"), std::string::npos);
}

TEST_F(Culprits, NobodyIsKnownForSureWhileSomebodyIsUnheard) {
  for (const int rank : {0, 1}) board(rank).begin(call_number(7));
  board(1).post_awaited(Rank{2});
  const Culprit unheard = find_culprit(call_number(7), Rank{1}, view(3));
  EXPECT_EQ(unheard.rank, Rank{2});
  EXPECT_FALSE(unheard.is_known);
  EXPECT_NE(unheard.what.find("rank 2 may not have called all_reduce"), std::string::npos) << unheard.what;
  EXPECT_EQ(missing_ranks(call_number(7), view(3)), "") << "of rank 2 it is not known";
  board(1).post_awaited(Rank{0});  // a circle: it may wait for rank 2 as well
  board(0).post_awaited(Rank{1});
  for (const Culprit& in_circle :
       {find_culprit(call_number(7), Rank{1}, view(3, Rank{4})), find_silent_peer(Rank{1}, view(3, Rank{4}))}) {
    EXPECT_FALSE(in_circle.is_known);
    EXPECT_NE(in_circle.what.find("; nothing was heard of rank 2"), std::string::npos) << in_circle.what;
  }
  board(1).post_awaited(Rank{2});
  board(2).begin(call_number(6));
  EXPECT_TRUE(find_culprit(call_number(7), Rank{1}, view(3)).is_known);
  board(2).begin(call_number(7));
  board(2).post_awaited(Rank{1});
  EXPECT_TRUE(find_culprit(call_number(7), Rank{1}, view(3)).is_known);
  EXPECT_TRUE(find_silent_peer(Rank{1}, view(3)).is_known);
}

TEST_F(Culprits, WhoHasNotComeIsNamedWhereOthersNameEachOther) {
  for (const int rank : {0, 1}) board(rank).begin(call_number(7));
  board(0).post_awaited(Rank{1});
  board(1).post_awaited(Rank{0});
  board(2).begin(call_number(6));
  board(2).post_awaited(Rank{3});  // held up
  board(3).begin(call_number(6));
  const Culprit culprit = find_culprit(call_number(7), Rank{1}, view(4));
  EXPECT_EQ(culprit.rank, Rank{3});
  EXPECT_NE(culprit.what.find("rank 3 has not called all_reduce"), std::string::npos) << culprit.what;
}

TEST_F(Culprits, GarbageOnABoardNamesNoRankThatIsNotThere) {
  board(1).begin(call_number(7));
  for (const int garbage :
       {1'000'000, -1'000'001, 3, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()}) {
    board(1).begin(call_number(7));
    board(1).post_awaited(Rank{garbage});
    EXPECT_EQ(find_culprit(call_number(7), Rank{1}, view(3)).rank, Rank{1}) << garbage;
    EXPECT_FALSE(waits_in_circle(Rank{1}, view(3))) << garbage;
    board(1).begin_point_to_point(6);
    EXPECT_EQ(find_culprit(call_number(7), Rank{1}, view(3)).rank, Rank{1}) << garbage;
    EXPECT_EQ(find_silent_peer(Rank{1}, view(3)).rank, Rank{1}) << garbage;
  }
}

TEST_F(Culprits, DisagreementsAreFoundNowAndInThePast) {
  for (std::uint64_t sequence = 1; sequence <= 9; ++sequence) {
    board(0).begin(call_number(sequence));
    board(1).begin(call_number(sequence, sequence >= 4 ? 99 : 10));
  }
  const Disagreement now = find_disagreement(call_number(9), view(2));
  EXPECT_EQ(now.rank, Rank{1});
  EXPECT_EQ(now.call.count, 99u);
  Call mine = call_number(9);
  const Disagreement first = find_first_disagreement(&mine, Rank{1}, board(0), view(2).board);
  EXPECT_EQ(first.rank, Rank{1});
  EXPECT_EQ(mine.sequence, 4u);
  EXPECT_EQ(find_disagreement(call_number(3), view(2)).rank, kNoRank);
}

TEST(Disagreements, WhoLeftIsNotSaidToHaveCalledSomething) {
  Call goes = call_number(9);
  goes.collective = Collective::kFinalize;
  const std::string stays = describe(call_number(9));
  EXPECT_EQ(describe(Disagreement{Rank{2}, goes}, call_number(9), Rank{1}),
            "rank 2 has left the communicator where rank 1 called " + stays);
  EXPECT_EQ(describe(Disagreement{Rank{2}, call_number(9)}, goes, Rank{1}),
            "rank 2 called " + stays + " where rank 1 has left the communicator");
}

}  // namespace
}  // namespace tutti::test
