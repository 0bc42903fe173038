// Covers comm/membership/board_exchange.cc, comm/messages/board_message.cc, comm/failure/culprit.cc.
// Boards of ranks on other hosts: asked for, told, and what a silent process looks like.
#include <signal.h>

#include "comm/failure/culprit.h"
#include "comm/membership/board_exchange.h"
#include "support/calls.h"
#include "support/joining_processes.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;
using test::call_number;
using test::comes_true;
using test::expect;
using test::join_apart;
using test::JoiningProcesses;
using test::SharedPage;

/// Rank r has made r + 1 calls and waits for rank r + 1 in the last; everyone reads everyone's board.
Status ask_and_read(int rank, int ranks, SharedPage& page) {
  const auto own = std::unique_ptr<CallBoard>(new CallBoard());
  JoinResult joined;
  TUTTI_TRY(join_apart(rank, ranks, page, &joined));
  Membership& membership = *joined.membership;
  for (int i = 0; i <= rank; ++i) own->begin(call_number(static_cast<std::uint64_t>(i + 1), 100 + rank));
  own->post_awaited(Rank{(rank + 1) % ranks});
  membership.set_board(own.get());
  page.mark(0);
  page.wait_for_mark(0, ranks);
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == rank) continue;
    const auto sequence = static_cast<std::uint64_t>(peer + 1);
    const bool came = comes_true([&] {
      membership.ask_boards({Rank{peer}}, 8);
      return membership.board(Rank{peer})->state().sequence == sequence;
    });
    TUTTI_TRY(expect(came, "no board came"));
    const BoardState state = membership.board(Rank{peer})->state();
    TUTTI_TRY(
        expect(state.state == CallState::kRunning && state.waiting_for == Rank{(peer + 1) % ranks}, "another state"));
    PostedCall call;  // not known for a moment, while another rank's question has the copy written anew
    const bool known = comes_true([&] { return (call = membership.board(Rank{peer})->find(1)).known; });
    TUTTI_TRY(expect(known && call.call.count == 100 + static_cast<std::uint64_t>(peer), "another call"));
  }
  page.mark(1);
  page.wait_for_mark(1, ranks);
  membership.set_board(nullptr);
  membership.say_goodbye(0);
  return Status();
}

// When thousands of ranks finish, each of them knows nothing of the others but the number of their last operation.
TEST(Boards, RanksInTheirLastOperationHaveOneBoardUntilTheirOwnComes) {
  BoardExchange exchange(4);
  for (const int rank : {1, 2, 3}) exchange.note_sequence(Rank{rank}, rank == 3 ? 8 : 7);
  EXPECT_EQ(exchange.copy(Rank{1}), exchange.copy(Rank{2}));
  EXPECT_EQ(exchange.copy(Rank{0})->state().sequence, 0u);
  EXPECT_EQ(exchange.copy(Rank{1})->state().sequence, 7u);
  EXPECT_EQ(exchange.copy(Rank{1})->state().state, CallState::kRunning);
  EXPECT_EQ(exchange.copy(Rank{3})->state().sequence, 8u);
  const auto own = std::make_unique<CallBoard>();
  own->begin(call_number(1, 100));
  own->begin(call_number(2, 100));
  ASSERT_TRUE(exchange.take({Rank{1}}, encode(read_board(Rank{1}, *own, CallBoard::kHistory))).ok());
  EXPECT_EQ(exchange.copy(Rank{1})->state().sequence, 2u);
  EXPECT_TRUE(exchange.copy(Rank{1})->find(1).known);
  EXPECT_EQ(exchange.copy(Rank{2})->state().sequence, 7u);
  exchange.note_sequence(Rank{1}, 9);
  EXPECT_EQ(exchange.copy(Rank{1})->state().sequence, 9u);
  EXPECT_TRUE(exchange.copy(Rank{1})->find(1).known);
  EXPECT_EQ(exchange.copy(Rank{2})->state().sequence, 7u);
}

/// Barriers up to this one, and before them a broadcast.
std::vector<Call> calls_to(std::uint64_t last) {
  std::vector<Call> calls{{.sequence = last - 1, .collective = Collective::kBroadcast, .root = Rank{1}},
                          {.sequence = last, .collective = Collective::kBarrier}};
  return calls;
}

TEST(Boards, WhatARankHasFinishedIsNotedUnlessMoreIsKnown) {
  BoardExchange exchange(2);
  const auto shows = [&](std::uint64_t sequence, CallState state) {
    const BoardState now = exchange.copy(Rank{1})->state();
    return now.sequence == sequence && now.state == state;
  };
  exchange.note_sequence(Rank{1}, 7);
  exchange.note_finished(Rank{1}, calls_to(6));
  EXPECT_TRUE(shows(7, CallState::kRunning));
  EXPECT_TRUE(exchange.finished_calls(Rank{1}, 6).empty()) << "what it called is not known";
  exchange.note_finished(Rank{1}, calls_to(7));
  EXPECT_TRUE(shows(7, CallState::kDone));
  EXPECT_EQ(exchange.finished_calls(Rank{1}, 7), calls_to(7));
  exchange.note_sequence(Rank{1}, 7);
  EXPECT_TRUE(shows(7, CallState::kDone));
  exchange.note_sequence(Rank{1}, 8);
  EXPECT_TRUE(shows(8, CallState::kRunning));
  EXPECT_EQ(exchange.finished_calls(Rank{1}, 7), calls_to(7)) << "what it called before is still known";
}

TEST(Boards, RanksThatHaveFinishedAlikeHaveOneBoard) {
  BoardExchange exchange(3);
  for (const Rank rank : {Rank{0}, Rank{1}}) exchange.note_finished(rank, calls_to(7));
  std::vector<Call> other = calls_to(7);
  other[0].root = Rank{2};
  exchange.note_finished(Rank{2}, other);
  EXPECT_EQ(exchange.copy(Rank{0}), exchange.copy(Rank{1}));
  EXPECT_NE(exchange.copy(Rank{0}), exchange.copy(Rank{2}));
  EXPECT_EQ(exchange.copy(Rank{2})->find(6).call.root, Rank{2});
  exchange.note_sequence(Rank{0}, 8);
  EXPECT_EQ(exchange.copy(Rank{1})->state().sequence, 7u) << "the other one has not come";
}

TEST(Boards, CallsOfARankOfThisProcessAreThoseOfItsBoard) {
  BoardExchange exchange(2);
  CallBoard board;
  exchange.set_own(Rank{0}, &board);
  for (std::uint64_t sequence = 1; sequence <= 20; ++sequence) board.begin({.sequence = sequence});
  EXPECT_TRUE(exchange.finished_calls(Rank{0}, 20).empty()) << "it runs";
  board.end(20);
  const std::vector<Call> calls = exchange.finished_calls(Rank{0}, 20);
  ASSERT_EQ(calls.size(), MemberEventsMessage::kMaxCalls);
  EXPECT_EQ(calls.back().sequence, 20u);
  for (std::uint64_t sequence = 21; sequence <= 100; ++sequence) board.begin({.sequence = sequence});
  EXPECT_TRUE(exchange.finished_calls(Rank{0}, 20).empty()) << "its board shows it no more";
  exchange.set_own(Rank{0}, nullptr);
}

TEST(Boards, ProcessesAreAskedAndAnswer) {
  JoiningProcesses processes;
  processes.start_all(3, [](int rank, SharedPage& page) { return ask_and_read(rank, 3, page); });
  processes.wait();
  test::expect_all_ok(processes.page(), 3);
}

TEST(Boards, ThreadsReadEachOthersToo) {
  SharedPage page;
  test::run_threads(3, page, [](int rank, SharedPage& shared) { return ask_and_read(rank, 3, shared); });
  test::expect_all_ok(page, 3);
}

TEST(Boards, APublishedBoardComesUnaskedAndWhole) {
  JoiningProcesses processes;
  processes.start_all(2, [](int rank, SharedPage& page) {
    const auto own = std::unique_ptr<CallBoard>(new CallBoard());
    JoinResult joined;
    TUTTI_TRY(join_apart(rank, 2, page, &joined));
    joined.membership->set_board(own.get());
    if (rank == 1) {
      for (std::uint64_t i = 1; i <= 100; ++i) own->begin(call_number(i));
      own->end(100);
      joined.membership->publish_board();
      page.wait_for_mark(0, 1);
    } else {
      const auto board = [&] { return joined.membership->board(Rank{1}); };
      TUTTI_TRY(expect(comes_true([&] { return board()->state().sequence == 100; }), "it did not come"));
      TUTTI_TRY(expect(board()->state().state == CallState::kDone, "another state"));
      for (std::uint64_t i = 37; i <= 100; ++i) TUTTI_TRY(expect(board()->find(i).known, "a call is missing"));
      page.mark(0);
    }
    joined.membership->set_board(nullptr);
    joined.membership->say_goodbye(0);
    return Status();
  });
  processes.wait();
  test::expect_all_ok(processes.page(), 2);
}

TEST(TimedBoards, TheChainEndsAtAStoppedProcess) {
  // Rank 0 waits for 1, 1 for 2, and 2, which is stopped, said when it was asked that it waited for 0.
  JoiningProcesses processes;
  processes.start_all(3, [](int rank, SharedPage& page) {
    const auto own = std::unique_ptr<CallBoard>(new CallBoard());
    JoinResult joined;
    TUTTI_TRY(join_apart(rank, 3, page, &joined));
    own->begin(call_number(1));
    own->post_awaited(Rank{(rank + 1) % 3});
    joined.membership->set_board(own.get());
    page.mark(0);
    if (rank != 0) return page.wait_for_mark(3, 1), Status();
    page.wait_for_mark(0, 3);
    Membership& membership = *joined.membership;
    const auto ask = [&] { membership.ask_boards({Rank{1}, Rank{2}}, 8); };
    const auto waits = [&](int peer) { return membership.board(Rank{peer})->state().waiting_for; };
    TUTTI_TRY(expect(comes_true([&] { return ask(), waits(1) == Rank{2} && waits(2) == Rank{0}; }), "no boards came"));
    page.mark(1);
    page.wait_for_mark(2, 1);
    const PeerView peers{Rank{0}, 3, [&](Rank peer) { return membership.board(peer); },
                         [&](Rank peer) { return membership.unanswered(peer); }};
    TUTTI_TRY(expect(comes_true([&] { return ask(), !peers.answers(Rank{2}); }), "its silence was not noticed"));
    const Culprit culprit = find_culprit(call_number(1), Rank{1}, peers);
    page.mark(3);
    return expect(culprit.rank == Rank{2}, "another rank is named");
  });
  ASSERT_TRUE(processes.page().wait_for_mark(1, 1));
  test::stop_process(processes.pid(2));
  processes.page().mark(2);
  processes.page().wait_for_mark(3, 1);
  ::kill(processes.pid(2), SIGCONT);
  processes.wait();
  test::expect_all_ok(processes.page(), 3);
}

TEST(Boards, UnsettingWaitsForARunningRead) {
  BoardExchange exchange(2);
  CallBoard board{};
  exchange.set_own(Rank{0}, &board);
  std::atomic<bool> reading{false};
  std::atomic<bool> done{false};
  std::thread reader([&] {
    exchange.answer({Rank{0}}, [&](ByteView) {
      reading.store(true);
      std::this_thread::sleep_for(milliseconds(50));
      done.store(true);
    });
  });
  test::await([&] { return reading.load(); }, "the reader");
  exchange.set_own(Rank{0}, nullptr);
  EXPECT_TRUE(done.load());
  reader.join();
  EXPECT_FALSE(exchange.publish(Rank{0}, [](ByteView) { FAIL() << "a board that was unset was read"; }));
}

TEST(Boards, ImpossibleMessagesAreRefused) {
  const auto accepts = [](const BoardMessage& message) {
    BoardMessage got;
    return decode(encode(message), &got).ok();
  };
  const BoardMessage good{Rank{1}, {5, CallState::kRunning, Rank{0}}, {call_number(4), call_number(5)}};
  EXPECT_TRUE(accepts(good));
  BoardMessage bad = good;
  bad.state.state = static_cast<CallState>(4);
  EXPECT_FALSE(accepts(bad));
  bad = good;
  bad.calls = {call_number(5), call_number(4)};
  EXPECT_FALSE(accepts(bad)) << "calls out of order";
  bad.calls = {call_number(6)};
  EXPECT_FALSE(accepts(bad)) << "newer than the newest";
  bad.calls = {call_number(0)};
  EXPECT_FALSE(accepts(bad)) << "no call has this number";
  bad.calls = {call_number(5)};
  bad.calls[0].type = static_cast<DataType>(15);
  EXPECT_FALSE(accepts(bad)) << "no such type";
  bad = good;
  bad.state.sequence = ~0ull;
  EXPECT_FALSE(accepts(bad)) << "a number that a board cannot hold";
  bad = good;
  bad.state.waiting_for = Rank{-2};
  EXPECT_FALSE(accepts(bad)) << "no such rank";
}

TEST(Boards, AProcessSpeaksForItsOwnRanksOnly) {
  BoardExchange exchange(3);
  const std::vector<Rank> ranks{Rank{1}};
  const auto take = [&](Rank rank, Rank waits_for) {
    return exchange.take(ranks, encode(BoardMessage{rank, {1, CallState::kRunning, waits_for}, {}})).ok();
  };
  EXPECT_TRUE(take(Rank{1}, Rank{2}));
  EXPECT_FALSE(take(Rank{2}, Rank{1}));
  EXPECT_FALSE(take(Rank{1}, Rank{3}));
  EXPECT_EQ(exchange.copy(Rank{1})->state().waiting_for, Rank{2});
  EXPECT_EQ(exchange.copy(Rank{2})->state().sequence, 0u);
}

TEST(Boards, WhatIsNotKnownIsNotClaimed) {
  CallBoard boards[2] = {};
  const PeerView peers{Rank{0}, 2, [&](Rank rank) { return &boards[rank.value]; },
                       [](Rank) { return Clock::duration{}; }};
  const auto says = [&](Rank awaited, const std::string& part) {
    for (const Culprit& culprit : {find_culprit(call_number(1), awaited, peers), find_silent_peer(awaited, peers)}) {
      EXPECT_EQ(culprit.rank, awaited);
      EXPECT_NE(culprit.what.find(part), std::string::npos) << culprit.what;
    }
  };
  says(Rank{1}, "nothing was heard of it");
  boards[1].open();
  says(Rank{1}, "it has made no ");
  boards[1].begin(call_number(1));
  says(kNoRank, "not known");
}

TEST(Boards, ACircleOfWaitsIsFound) {
  CallBoard boards[3] = {};
  const PeerView peers{Rank{0}, 3, [&](Rank rank) { return &boards[rank.value]; },
                       [](Rank) { return Clock::duration{}; }};
  for (int i = 0; i < 3; ++i) boards[i].begin(call_number(1));
  EXPECT_FALSE(waits_in_circle(Rank{1}, peers));
  boards[1].post_awaited(Rank{2});
  EXPECT_FALSE(waits_in_circle(Rank{1}, peers));
  boards[2].post_awaited(Rank{1});
  EXPECT_TRUE(waits_in_circle(Rank{1}, peers));
  boards[2].post_awaited(Rank{0});
  EXPECT_TRUE(waits_in_circle(Rank{1}, peers));
  EXPECT_FALSE(waits_in_circle(kNoRank, peers));
}

}  // namespace
}  // namespace tutti
