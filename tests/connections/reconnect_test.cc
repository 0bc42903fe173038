// Control connections over TCP: deaths are told at once, losses are mended, and what was said meanwhile arrives.
// Covers comm/membership/peer_process.cc, comm/membership/control_connections.cc, comm/membership/data_connector.cc.
#include <signal.h>

#include "support/connections.h"
#include "support/joining_processes.h"
#include "support/yardstick.h"

namespace tutti {
namespace {

using test::comes_true;
using test::expect;
using test::join_apart;
using test::JoiningProcesses;
using test::SharedPage;

class TimedReconnectKill : public testing::TestWithParam<int> {};

TEST_P(TimedReconnectKill, AKilledRankIsDeadOnAllWithinASecond) {
  const int victim = GetParam();
  JoiningProcesses processes;
  processes.start_all(4, [victim](int rank, SharedPage& page) {
    JoinResult joined;
    TUTTI_TRY(join_apart(rank, 4, page, &joined));
    page.mark(0);
    if (rank == victim) test::await_kill();
    test::Yardstick yardstick;
    page.wait_for_mark(1, 1);
    const std::string miss =
        yardstick.miss(1, [&] { return joined.membership->liveness(Rank{victim}) == Liveness::kDead; });
    TUTTI_TRY(expect(miss.empty(), "of the death: " + miss));
    for (int other = 0; other < 4; ++other)
      if (other != victim)
        TUTTI_TRY(expect(joined.membership->liveness(Rank{other}) == Liveness::kAlive, "another one counts as dead"));
    page.mark(2);
    page.wait_for_mark(2, 3);
    joined.membership->say_goodbye(0);
    return Status();
  });
  ASSERT_TRUE(processes.page().wait_for_mark(0, 4));
  processes.kill(victim);
  processes.page().mark(1);
  processes.wait();
  for (int rank = 0; rank < 4; ++rank) {
    if (rank == victim) continue;
    EXPECT_EQ(processes.page().code(rank), Code::kOk) << "rank " << rank << ": " << processes.page().text(rank);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, TimedReconnectKill, testing::Values(0, 1, 3));

/// Everybody's board says `round` when all connections have been cut and made again.
Status cut_and_compare(JoinResult& joined, CallBoard& own, int rank, int round, SharedPage& page) {
  constexpr int kRanks = 3;
  if (round % kRanks == rank) TUTTI_TRY(expect(test::cut_connections() >= 2, "there was nothing to cut"));
  page.mark(1);
  page.wait_for_mark(1, kRanks * round);
  Call call;
  call.sequence = static_cast<std::uint64_t>(round);
  call.collective = Collective::kBarrier;
  own.begin(call);
  std::vector<Rank> others;
  for (int peer = 0; peer < kRanks; ++peer)
    if (peer != rank) others.push_back(Rank{peer});
  const bool heard = comes_true([&] {
    joined.membership->ask_boards(others, 8);
    return std::all_of(others.begin(), others.end(), [&](Rank peer) {
      return joined.membership->board(peer)->state().sequence >= static_cast<std::uint64_t>(round);
    });
  });
  TUTTI_TRY(expect(heard, "a connection did not come back"));
  for (const Rank peer : others)
    TUTTI_TRY(expect(joined.membership->liveness(peer) == Liveness::kAlive, "a loss counts as a death"));
  return Status();
}

TEST(Reconnect, ACutConnectionIsMadeAgain) {
  JoiningProcesses processes;
  processes.start_all(3, [](int rank, SharedPage& page) {
    const auto own = std::unique_ptr<CallBoard>(new CallBoard());
    JoinResult joined;
    TUTTI_TRY(join_apart(rank, 3, page, &joined));
    joined.membership->set_board(own.get());
    for (int round = 1; round <= 30; ++round) TUTTI_TRY(cut_and_compare(joined, *own, rank, round, page));
    page.mark(2);
    page.wait_for_mark(2, 3);
    joined.membership->set_board(nullptr);
    joined.membership->say_goodbye(0);
    return Status();
  });
  processes.wait();
  test::expect_all_ok(processes.page(), 3);
}

TEST(Reconnect, ACauseAndAGoodbyeSaidIntoACutConnectionArrive) {
  for (const int speaker : {0, 1}) {
    JoiningProcesses processes;
    processes.start_all(2, [speaker](int rank, SharedPage& page) {
      JoinResult joined;
      TUTTI_TRY(join_apart(rank, 2, page, &joined));
      Membership& membership = *joined.membership;
      page.mark(0);
      page.wait_for_mark(0, 2);
      if (rank == speaker) {
        test::cut_connections();
        membership.post_cause(FailureCause{Code::kMismatch, kNoRank, Rank{0}, "a cause"});
        membership.say_goodbye(7);
        page.wait_for_mark(1, 1);
        return Status();
      }
      TUTTI_TRY(expect(comes_true([&] { return membership.liveness(Rank{speaker}) != Liveness::kAlive; }),
                       "no goodbye came"));
      page.mark(1);
      membership.say_goodbye(0);
      return expect(membership.liveness(Rank{speaker}) == Liveness::kLeft &&
                        membership.last_sequence(Rank{speaker}) == 7 && membership.cause().text == "a cause",
                    "something else came");
    });
    processes.wait();
    test::expect_all_ok(processes.page(), 2);
  }
}

TEST(Reconnect, AStreamIsAskedForAgain) {
  // The lower rank asks for a stream over a connection that is just being cut.
  JoiningProcesses processes;
  processes.start_all(2, [](int rank, SharedPage& page) {
    JoinResult joined;
    TUTTI_TRY(join_apart(rank, 2, page, &joined));
    for (int round = 1; round <= 10; ++round) {
      if (rank == 0) {
        test::cut_connections();
        joined.tcp_streams->want(Rank{1}, Lane{0});
      }
      TcpStream stream;
      TUTTI_TRY(
          expect(comes_true([&] { return joined.tcp_streams->take(Rank{1 - rank}, Lane{0}, &stream); }), "no stream"));
      page.mark(0);
      page.wait_for_mark(0, 2 * round);
    }
    joined.membership->say_goodbye(0);
    return Status();
  });
  processes.wait();
  test::expect_all_ok(processes.page(), 2);
}

class TimedReconnectSilence : public testing::TestWithParam<int> {};

TEST_P(TimedReconnectSilence, AProcessThatDoesNotComeBackIsDeadAfterItsTime) {
  const int silent = GetParam();  // stopped: its system accepts connections, but nobody answers
  JoiningProcesses processes;
  processes.start_all(2, [silent](int rank, SharedPage& page) {
    JoinResult joined;
    TUTTI_TRY(join_apart(rank, 2, page, &joined, 1.0));
    Membership& membership = *joined.membership;
    page.mark(0);
    if (rank == silent) {  // and finds itself given up when it goes on
      const bool told = comes_true([&] { return membership.liveness(Rank{1 - silent}) == Liveness::kDead; });
      page.mark(3);
      membership.say_goodbye(0);
      return expect(told, "it was not told that it is on its own");
    }
    test::Yardstick yardstick;
    page.wait_for_mark(1, 1);
    const auto began = Clock::now();
    TUTTI_TRY(expect(test::cut_connections() >= 1, "there was nothing to cut"));
    const std::string miss = yardstick.miss(3, [&] { return membership.liveness(Rank{silent}) == Liveness::kDead; });
    const auto given = Clock::now() - began;  // at least what it was told, however slow this process is
    page.mark(2);
    page.wait_for_mark(3, 1);
    TUTTI_TRY(expect(miss.empty(), "of the end of its time: " + miss));
    TUTTI_TRY(expect(given >= std::chrono::seconds(1), "it was given no time"));
    const std::string who = membership.describe(Rank{silent});
    membership.say_goodbye(0);
    return expect(who.find("not reachable for 1 s") != std::string::npos, "the text does not say why");
  });
  ASSERT_TRUE(processes.page().wait_for_mark(0, 2));
  test::stop_process(processes.pid(silent));
  processes.page().mark(1);
  processes.page().wait_for_mark(2, 1);
  ::kill(processes.pid(silent), SIGCONT);
  processes.wait();
  test::expect_all_ok(processes.page(), 2);
}

INSTANTIATE_TEST_SUITE_P(Ranks, TimedReconnectSilence, testing::Values(0, 1));

TEST(Reconnect, WithoutPatienceALossIsADeath) {
  JoiningProcesses processes;
  processes.start_all(2, [](int rank, SharedPage& page) {
    JoinResult joined;
    TUTTI_TRY(join_apart(rank, 2, page, &joined, 0));
    page.mark(0);
    page.wait_for_mark(0, 2);
    if (rank == 1) test::cut_connections();
    const bool dead = comes_true([&] { return joined.membership->liveness(Rank{1 - rank}) == Liveness::kDead; });
    page.mark(1);
    page.wait_for_mark(1, 2);
    joined.membership->say_goodbye(0);
    return expect(dead, "the loss was not noticed");
  });
  processes.wait();
  test::expect_all_ok(processes.page(), 2);
}

}  // namespace
}  // namespace tutti
