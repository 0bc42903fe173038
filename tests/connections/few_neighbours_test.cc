// Communicators whose processes are connected to a few others each: what one knows reaches all, also when many have
// left, and whoever wants to talk to somebody else makes a connection.
// Covers comm/membership/control_connections.cc, comm/membership/membership_linker.cc, comm/membership/host_memory.cc,
// comm/membership/member_event_batch.cc, net/host_identity.cc.
#include <signal.h>

#include "comm/membership/board_exchange.h"
#include "connections/few_neighbours.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;
using test::comes_true;
using test::expect;
using test::expect_lives;
using test::FewNeighbours;
using test::JoiningProcesses;
using test::kPlacements;
using test::kRanks;
using test::placement_name;
using test::SharedPage;

class Sparse : public FewNeighbours {};

TEST_P(Sparse, MemoryIsSharedWithinTheHost) {
  run([](int rank, SharedPage& page) {
    JoinResult joined;
    TUTTI_TRY(join_sparse(rank, page, &joined));
    const int hosts = GetParam().hosts;
    joined.segments.of(Rank{rank})->data()[7] = static_cast<std::byte>(rank + 1);
    page.mark(0);
    page.wait_for_mark(0, kRanks);
    for (int peer = 0; peer < kRanks; ++peer) {
      const auto segment = joined.segments.of(Rank{peer});
      TUTTI_TRY(expect((segment != nullptr) == (peer % hosts == rank % hosts), "memory of the wrong ranks"));
      if (segment)
        TUTTI_TRY(expect(segment->data()[7] == static_cast<std::byte>(peer + 1), "the memory of somebody else"));
    }
    page.mark(1);
    page.wait_for_mark(1, kRanks);
    joined.membership->say_goodbye(0);
    return Status();
  });
}

/// As where TCP is asked for.
TEST_P(Sparse, RanksWithoutMemoryJoin) {
  run([](int rank, SharedPage& page) {
    JoinResult joined;
    TUTTI_TRY(join_sparse(rank, page, &joined, Bytes{0}));
    TUTTI_TRY(expect(joined.segments.of(Rank{0}) == nullptr, "memory that nobody asked for"));
    page.mark(0);
    page.wait_for_mark(0, kRanks);
    joined.membership->say_goodbye(0);
    return Status();
  });
}

TEST_P(Sparse, GoodbyesReachAll) {
  run([](int rank, SharedPage& page) {
    JoinResult joined;
    TUTTI_TRY(join_sparse(rank, page, &joined));
    page.mark(0);
    page.wait_for_mark(0, kRanks);
    if (rank % 2 == 1) joined.membership->say_goodbye(static_cast<std::uint64_t>(100 + rank));
    const auto liveness = [](int peer) { return peer % 2 == 1 ? Liveness::kLeft : Liveness::kAlive; };
    TUTTI_TRY(expect_lives(*joined.membership, liveness));
    for (int peer = 1; peer < kRanks; peer += 2)
      TUTTI_TRY(expect(joined.membership->last_sequence(Rank{peer}) == static_cast<std::uint64_t>(100 + peer),
                       "another last operation"));
    page.mark(1);
    page.wait_for_mark(1, kRanks);
    joined.membership->say_goodbye(0);
    return Status();
  });
}

TEST_P(Sparse, TheFirstCauseReachesAllAndTheEndOfItsMessengerIsNone) {
  run([](int rank, SharedPage& page) {
    JoinResult joined;
    TUTTI_TRY(join_sparse(rank, page, &joined));
    page.mark(0);
    page.wait_for_mark(0, kRanks);
    if (rank == 5) {
      joined.membership->post_cause(FailureCause{Code::kMismatch, Rank{5}, Rank{3}, "another size"});
      page.report(rank, Status());
      ::_exit(0);
    }
    const bool came = comes_true([&] { return joined.membership->cause().code != Code::kOk; });
    TUTTI_TRY(expect(came, "no cause came"));
    const FailureCause cause = joined.membership->cause();
    TUTTI_TRY(expect(cause.text == "another size" && cause.from == Rank{5} && cause.culprit == Rank{3}, cause.text));
    page.mark(1);
    page.wait_for_mark(1, kRanks - 1);
    joined.membership->say_goodbye(0);
    return Status();
  });
}

TEST_P(Sparse, AKilledRankIsDeadOnAll) {
  constexpr int kVictim = 6;
  run_and_kill(kVictim, [](int rank, SharedPage& page) {
    JoinResult joined;
    TUTTI_TRY(join_sparse(rank, page, &joined));
    page.mark(0);
    if (rank == kVictim) test::await_kill();
    page.wait_for_mark(1, 1);
    TUTTI_TRY(expect_lives(*joined.membership,
                           [](int peer) { return peer == kVictim ? Liveness::kDead : Liveness::kAlive; }));
    page.mark(2);
    page.wait_for_mark(2, kRanks - 1);
    joined.membership->say_goodbye(0);
    return Status();
  });
}

/// 1, 4 and 11 stay and were not all neighbours; when 4 is killed, both others know.
TEST_P(Sparse, ThoseWhoStayFindEachOther) {
  JoiningProcesses processes;
  const auto stays = [](int rank) { return rank == 1 || rank == 4 || rank == 11; };
  processes.start_all(kRanks, [stays](int rank, SharedPage& page) {
    JoinResult joined;
    TUTTI_TRY(join_sparse(rank, page, &joined));
    page.mark(0);
    page.wait_for_mark(0, kRanks);
    if (!stays(rank)) return joined.membership->say_goodbye(1), Status();
    TUTTI_TRY(
        expect_lives(*joined.membership, [stays](int p) { return stays(p) ? Liveness::kAlive : Liveness::kLeft; }));
    std::this_thread::sleep_for(milliseconds(1000));  // by now they are connected
    page.mark(1);
    if (rank == 4) test::await_kill();
    const bool noticed = comes_true([&] { return joined.membership->liveness(Rank{4}) == Liveness::kDead; });
    TUTTI_TRY(expect(noticed, "the death was not noticed"));
    TUTTI_TRY(expect(joined.membership->liveness(Rank{12 - rank}) == Liveness::kAlive, "the other one counts as dead"));
    page.mark(2);
    page.wait_for_mark(2, 2);
    joined.membership->say_goodbye(0);
    return Status();
  });
  EXPECT_TRUE(processes.page().wait_for_mark(1, 3)) << "rank 4: " << processes.page().text(4);
  processes.kill(4);
  processes.wait();
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == 4) continue;
    EXPECT_EQ(processes.page().code(rank), Code::kOk) << "rank " << rank << ": " << processes.page().text(rank);
  }
}

/// All ask all at once, so that pairs dial each other at the same time.
TEST_P(Sparse, BoardsOfAllCanBeAskedFor) {
  run([](int rank, SharedPage& page) {
    const auto own = std::unique_ptr<CallBoard>(new CallBoard());
    Call call;
    call.sequence = static_cast<std::uint64_t>(rank + 1);
    call.collective = Collective::kBarrier;
    own->begin(call);
    JoinResult joined;
    TUTTI_TRY(join_sparse(rank, page, &joined));
    joined.membership->set_board(own.get());
    page.mark(0);
    page.wait_for_mark(0, kRanks);
    std::vector<Rank> others;
    for (int peer = 0; peer < kRanks; ++peer)
      if (peer != rank) others.push_back(Rank{peer});
    const bool heard = comes_true([&] {
      joined.membership->ask_boards(others, 8);
      return std::all_of(others.begin(), others.end(), [&](Rank peer) {
        return joined.membership->board(peer)->state().sequence == static_cast<std::uint64_t>(peer.value + 1);
      });
    });
    TUTTI_TRY(expect(heard, "a board did not come"));
    TUTTI_TRY(expect_lives(*joined.membership, [](int) { return Liveness::kAlive; }));
    page.mark(1);
    page.wait_for_mark(1, kRanks);
    joined.membership->set_board(nullptr);
    joined.membership->say_goodbye(0);
    return Status();
  });
}

/// Every pair wants a stream, as an all-to-all does: most of them have no control connection yet.
TEST_P(Sparse, StreamsBetweenAll) {
  run([](int rank, SharedPage& page) {
    JoinResult joined;
    TUTTI_TRY(join_sparse(rank, page, &joined));
    for (int peer = rank + 1; peer < kRanks; ++peer)
      joined.tcp_streams->want(Rank{peer}, Lane{0});  // the lower one asks
    for (int peer = 0; peer < kRanks; ++peer) {
      TcpStream stream;
      if (peer == rank) continue;
      const bool came = comes_true([&] { return joined.tcp_streams->take(Rank{peer}, Lane{0}, &stream); });
      TUTTI_TRY(expect(came, fmt::format("no stream to rank {}", peer)));
    }
    page.mark(0);
    page.wait_for_mark(0, kRanks);
    joined.membership->say_goodbye(0);
    return Status();
  });
}

INSTANTIATE_TEST_SUITE_P(Placements, Sparse, kPlacements, placement_name);

TEST(SparseThreads, AHundredRanksOfOneProcessJoin) {
  std::atomic<int> joined_ranks{0};
  IdBytes id;
  ASSERT_TRUE(make_unique_id(Settings{}, &id).ok());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 100; ++rank)
    threads.emplace_back([&, rank] {
      JoinResult joined;
      const Status status = join(test::request_for(rank, 100, id), &joined);
      if (!status.ok()) return;
      if (joined.single_process && joined.segments.of(Rank{99}) != nullptr) joined_ranks.fetch_add(1);
      joined.membership->say_goodbye(0);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(joined_ranks.load(), 100);
}

}  // namespace
}  // namespace tutti
