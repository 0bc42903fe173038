// How ranks whose processes are connected to a few others each hear that others have come to Finalize.
// Covers comm/membership/finalize_exchange.cc.
#include "comm/membership/finalize_tree.h"

#include <csignal>

#include "comm/membership/board_exchange.h"
#include "comm/membership/hub.h"
#include "comm/membership/process_membership.h"
#include "connections/few_neighbours.h"

namespace tutti {
namespace {

using test::comes_true;
using test::expect;
using test::kPlacements;
using test::kRanks;
using test::placement_name;
using test::SharedPage;

constexpr std::uint64_t kFinalize = 40;  // its number among the operations of a rank

class Finalize : public test::FewNeighbours {
 protected:
  /// A rank that can come to Finalize.
  struct Finishing {
    JoinResult joined;
    const std::unique_ptr<CallBoard> board{new CallBoard()};

    ~Finishing() {
      if (joined.membership) joined.membership->set_board(nullptr);
    }
    void come(std::uint64_t sequence = kFinalize) const {
      Call call;
      call.sequence = sequence;
      call.collective = Collective::kFinalize;
      board->begin(call);
      joined.membership->publish_board();
    }
    /// The rank hears of all others that live that they are in the operations that it expects of them.
    Status expect_others(const std::function<std::uint64_t(int peer)>& expected) const {
      for (Rank peer{0}; peer.value < kRanks; ++peer) {
        const auto sequence = [&] { return joined.membership->board(peer)->state().sequence; };
        if (peer == joined.membership->rank() || joined.membership->liveness(peer) == Liveness::kDead) continue;
        const bool came = comes_true([&] { return sequence() == expected(peer.value); });
        TUTTI_TRY(expect(came, fmt::format("rank {} is known to be in {}", peer.value, sequence())));
      }
      return {};
    }
    Status expect_all() const {
      return expect_others([](int) { return kFinalize; });
    }
    /// Waits until so many ranks want to leave.
    void leave(SharedPage& page, int ranks = kRanks) const {
      page.mark(2);
      page.wait_for_mark(2, ranks);
      joined.membership->say_goodbye(kFinalize - 1);
    }
  };

  /// The ranks have finished the operation with this number, if it is not 0.
  static Status join_all(int rank, SharedPage& page, Finishing* made, std::uint64_t finished = 0) {
    TUTTI_TRY(join_sparse(rank, page, &made->joined));
    if (finished != 0) made->board->end(finished);
    made->joined.membership->set_board(made->board.get());
    page.mark(3);
    page.wait_for_mark(3, kRanks);
    return {};
  }
};

/// The tree alone carries it, because ranks would be named one by one only after the test's patience.
TEST_P(Finalize, ThatAllHaveComeReachesAll) {
  run([](int rank, SharedPage& page) {
    Finishing self;
    TUTTI_TRY(join_all(rank, page, &self));
    const auto membership = self.joined.membership->of_process();
    self.joined.membership->hub()->loop().post([membership] { membership->let_go(false, 1'000'000); });
    self.come();
    TUTTI_TRY(self.expect_all());
    self.leave(page);
    return Status();
  });
}

/// A rank that waits for the late one must know that the others have come, so that it does not name them.
TEST_P(Finalize, ThoseThatHaveComeAreKnownWhileOneIsLate) {
  run([](int rank, SharedPage& page) {
    constexpr int kLate = 5;
    Finishing self;
    TUTTI_TRY(join_all(rank, page, &self));
    if (rank != kLate) self.come();
    TUTTI_TRY(self.expect_others([](int peer) { return peer == kLate ? 0 : kFinalize; }));
    page.mark(1);
    page.wait_for_mark(1, kRanks);
    if (rank == kLate) self.come();
    TUTTI_TRY(self.expect_all());
    self.leave(page);
    return Status();
  });
}

TEST_P(Finalize, DifferentNumbersAreKnownToAll) {
  run([](int rank, SharedPage& page) {
    const auto number = [](int peer) { return peer == 3 ? kFinalize + 1 : kFinalize; };
    Finishing self;
    TUTTI_TRY(join_all(rank, page, &self));
    self.come(number(rank));
    TUTTI_TRY(self.expect_others(number));
    self.leave(page);
    return Status();
  });
}

/// Half of the ranks are late, as where ranks destroy two communicators in different orders. Nobody need ask them one
/// by one what they have finished.
TEST_P(Finalize, WhatThoseThatAreLateHaveFinishedIsKnownToAll) {
  run([](int rank, SharedPage& page) {
    constexpr int kBusy = 7;  // it is late, too, and has not finished the last operation
    const auto is_late = [](int peer) { return peer % 2 == 1; };
    Finishing self;
    TUTTI_TRY(join_all(rank, page, &self));
    self.board->begin({.sequence = kFinalize - 1, .collective = Collective::kBroadcast, .root = Rank{rank}});
    if (rank != kBusy) self.board->end(kFinalize - 1);
    page.mark(1);
    page.wait_for_mark(1, kRanks);
    if (!is_late(rank)) self.come();
    TUTTI_TRY(self.expect_others([&](int peer) {
      if (peer == kBusy) return std::uint64_t{0};
      return is_late(peer) ? kFinalize - 1 : kFinalize;
    }));
    page.mark(0);
    page.wait_for_mark(0, kRanks);
    if (rank == kBusy) self.board->end(kFinalize - 1);
    TUTTI_TRY(self.expect_others([&](int peer) { return is_late(peer) ? kFinalize - 1 : kFinalize; }));
    for (int peer = 0; peer < kRanks; ++peer) {
      const PostedCall last = self.joined.membership->board(Rank{peer})->find(kFinalize - 1);
      if (is_late(peer) && peer != rank) TUTTI_TRY(expect(last.call.root == Rank{peer}, "what it called is known"));
    }
    page.mark(4);
    page.wait_for_mark(4, kRanks);
    if (is_late(rank)) self.come();
    TUTTI_TRY(self.expect_all());
    self.leave(page);
    return Status();
  });
}

/// A rank that leaves knows that all ranks have finished the last operation. So the others can leave, too, though one
/// has not come.
TEST_P(Finalize, OneThatLeavesSaysThatAllHaveFinished) {
  run([](int rank, SharedPage& page) {
    constexpr int kLate = 5;
    constexpr int kFirst = 12;
    Finishing self;
    TUTTI_TRY(join_all(rank, page, &self, kFinalize - 1));
    if (rank != kLate) self.come();
    if (rank == kFirst) self.joined.membership->say_goodbye(kFinalize - 1, true);
    const auto known = [&] { return self.joined.membership->finished_by_all() == kFinalize - 1; };
    TUTTI_TRY(expect(comes_true(known), "it is not known that all have finished"));
    self.leave(page);
    return Status();
  });
}

/// A goodbye with an error says it of one rank only.
TEST_P(Finalize, OneThatLeavesWithAnErrorDoesNot) {
  run([](int rank, SharedPage& page) {
    constexpr int kFirst = 12;
    Finishing self;
    TUTTI_TRY(join_all(rank, page, &self, kFinalize - 1));
    if (rank == kFirst) self.joined.membership->say_goodbye(kFinalize - 1);
    const auto left = [&] { return self.joined.membership->liveness(Rank{kFirst}) == Liveness::kLeft; };
    TUTTI_TRY(expect(comes_true(left), "the goodbye has not come"));
    TUTTI_TRY(expect(self.joined.membership->finished_by_all() == 0, "it is said of all"));
    self.leave(page);
    return Status();
  });
}

/// Ranks leave because of it, so a process that says it too early is not believed.
TEST_P(Finalize, ThatAllHaveFinishedIsNotBelievedByOneThatHasNot) {
  run([](int rank, SharedPage& page) {
    constexpr int kLiar = 12;
    Finishing self;
    TUTTI_TRY(join_all(rank, page, &self));
    Call running;
    running.sequence = kFinalize - 1;
    self.board->begin(running);
    page.mark(1);
    page.wait_for_mark(1, kRanks);
    if (rank == kLiar) self.joined.membership->say_goodbye(kFinalize - 1, true);
    const auto left = [&] { return self.joined.membership->liveness(Rank{kLiar}) == Liveness::kLeft; };
    TUTTI_TRY(expect(comes_true(left), "the goodbye has not come"));
    const std::uint64_t known = self.joined.membership->finished_by_all();
    TUTTI_TRY(expect(rank == kLiar || known == 0, "an own rank has not finished"));
    page.mark(2);
    page.wait_for_mark(2, kRanks);
    self.joined.membership->say_goodbye(0);
    return Status();
  });
}

/// Those that are not connected to it hear what it had finished, and nobody takes it for late.
class ARankIsKilledInFinalize : public Finalize {
 protected:
  static void expect_that_it_had_finished(int victim) {
    run_and_kill(victim, [victim](int rank, SharedPage& page) {
      constexpr int kLate = 5;
      Finishing self;
      TUTTI_TRY(join_all(rank, page, &self));
      if (rank != kLate) self.come();
      const auto said = [&] { return self.joined.membership->delivered(); };
      TUTTI_TRY(expect(comes_true(said), "the neighbours' systems do not take the board"));
      page.mark(0);
      if (rank == victim) test::await_kill();
      page.wait_for_mark(1, 1);
      const auto dead = [&] { return self.joined.membership->liveness(Rank{victim}) == Liveness::kDead; };
      TUTTI_TRY(expect(comes_true(dead), "the death was not noticed"));
      const std::uint64_t last = self.joined.membership->last_sequence(Rank{victim});
      TUTTI_TRY(expect(last == kFinalize - 1, fmt::format("it is said to have finished {}", last)));
      if (rank == kLate) self.come();
      TUTTI_TRY(self.expect_all());
      self.leave(page, kRanks - 1);
      return Status();
    });
  }
};

TEST_P(ARankIsKilledInFinalize, TheRootOfTheTree) { expect_that_it_had_finished(0); }
TEST_P(ARankIsKilledInFinalize, AParent) { expect_that_it_had_finished(8); }
TEST_P(ARankIsKilledInFinalize, AnOrdinaryOne) { expect_that_it_had_finished(13); }

class TimedFinalize : public Finalize {};

/// Its neighbours know, and are all that can tell the others.
TEST_P(TimedFinalize, ThatAStoppedRankHasComeIsKnownToAll) {
  constexpr int kLate = 5;
  constexpr int kStopped = 13;
  test::JoiningProcesses processes;
  processes.start_all(kRanks, [](int rank, SharedPage& page) {
    Finishing self;
    TUTTI_TRY(join_all(rank, page, &self));
    if (rank == kStopped) {
      self.come();
      const auto said = [&] { return self.joined.membership->delivered(); };
      TUTTI_TRY(expect(comes_true(said), "the neighbours' systems do not take the board"));
      page.mark(0);
      ::raise(SIGSTOP);
    }
    page.wait_for_mark(0, 1);
    if (rank != kLate) self.come();
    TUTTI_TRY(self.expect_others([](int peer) { return peer == kLate ? 0 : kFinalize; }));
    page.mark(1);
    page.wait_for_mark(1, kRanks - 1);
    self.joined.membership->say_goodbye(kFinalize - 1);
    return Status();
  });
  processes.page().wait_for_mark(1, kRanks - 1);
  processes.kill(kStopped);
  processes.wait();
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == kStopped) continue;
    EXPECT_EQ(processes.page().code(rank), Code::kOk) << "rank " << rank << ": " << processes.page().text(rank);
  }
}

INSTANTIATE_TEST_SUITE_P(Placements, TimedFinalize, kPlacements, placement_name);
INSTANTIATE_TEST_SUITE_P(Placements, Finalize, kPlacements, placement_name);
INSTANTIATE_TEST_SUITE_P(Placements, ARankIsKilledInFinalize, kPlacements, placement_name);

}  // namespace
}  // namespace tutti
