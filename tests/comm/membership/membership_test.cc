// Covers comm/membership/process_membership.cc, comm/membership/process_membership_liveness.cc,
// comm/membership/membership.cc, comm/membership/member_table.cc.
// Lives, causes and goodbyes, among threads and processes.
#include "comm/membership/membership.h"

#include <sys/syscall.h>

#include "support/joining_processes.h"
#include "support/yardstick.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;
using test::expect;
using test::expect_all_ok;
using test::JoiningProcesses;
using test::SharedPage;

/// Waits until a condition on the membership holds, driven by the listener: what a sleeper does.
bool wait_until(Membership& membership, const std::function<bool()>& condition) {
  std::mutex mutex;
  std::condition_variable changed;
  int changes = 0;
  membership.set_listener([&] {
    const std::lock_guard lock(mutex);
    ++changes;
    changed.notify_all();
  });
  const auto end = Clock::now() + test::kPatience;
  bool holds = condition();
  while (!holds && Clock::now() < end) {
    std::unique_lock lock(mutex);
    changed.wait_until(lock, end, [&] { return changes > 0; });
    changes = 0;
    lock.unlock();
    holds = condition();
  }
  membership.set_listener({});
  return holds;
}

bool wait_for_life(Membership& membership, int rank, Liveness liveness) {
  return wait_until(membership, [&] { return membership.liveness(Rank{rank}) == liveness; });
}

TEST(TimedMembership, AKilledProcessIsDeadWithinASecondAndNamed) {
  JoiningProcesses processes;
  processes.start_all(3, [](int rank, SharedPage& page) {
    JoinResult joined;
    TUTTI_TRY(test::join_by_page(rank, 3, page, &joined));
    page.mark(0);
    if (rank == 2) test::await_kill();
    test::Yardstick yardstick;
    page.wait_for_mark(1, 1);
    const std::string miss = yardstick.miss(1, [&] { return joined.membership->liveness(Rank{2}) == Liveness::kDead; });
    TUTTI_TRY(expect(miss.empty(), "of the death: " + miss));
    TUTTI_TRY(
        expect(joined.membership->describe(Rank{2}).find(fmt::format("process {} on host", page.marks[2].load())) == 0,
               "the dead process is not named"));
    TUTTI_TRY(expect(joined.membership->liveness(Rank{1 - rank}) == Liveness::kAlive, "the other one is not dead"));
    page.mark(3);
    page.wait_for_mark(3, 2);
    joined.membership->say_goodbye(0);
    return Status();
  });
  ASSERT_TRUE(processes.page().wait_for_mark(0, 3));
  processes.page().marks[2].store(processes.pid(2));
  processes.kill(2);
  processes.page().mark(1);
  processes.wait();
  expect_all_ok(processes.page(), 2);
}

/// A child made behind the C library's back keeps copies of all sockets: only the pidfd tells that its parent is dead.
TEST(Membership, AKilledParentOfALivingChildIsDead) {
  for (const bool raw : {false, true}) {
    JoiningProcesses processes;
    processes.start_all(2, [raw](int rank, SharedPage& page) {
      JoinResult joined;
      TUTTI_TRY(test::join_by_page(rank, 2, page, &joined));
      page.mark(0);
      if (rank == 1) {
        const long child = raw ? ::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : ::fork();
        if (child == 0) {
          (void)test::comes_true([&page] { return page.marks[5].load() != 0; }, 2 * test::kPatience);
          ::_exit(0);
        }
        page.mark(1);
        test::await_kill();
      }
      page.wait_for_mark(2, 1);
      TUTTI_TRY(expect(wait_for_life(*joined.membership, 1, Liveness::kDead), "the death was not noticed"));
      joined.membership->say_goodbye(0);
      return Status();
    });
    ASSERT_TRUE(processes.page().wait_for_mark(1, 1));
    processes.kill(1);
    processes.page().mark(2);
    test::await([&] { return processes.page().code(0) != static_cast<Code>(-1); }, "the report of rank 0");
    processes.page().mark(5);
    processes.wait();
    expect_all_ok(processes.page(), 1);
  }
}

TEST(Membership, AGoodbyeBeforeTheEndIsNoDeath) {
  JoiningProcesses processes;
  processes.start_all(2, [](int rank, SharedPage& page) {
    JoinResult joined;
    TUTTI_TRY(test::join_by_page(rank, 2, page, &joined));
    if (rank == 1) {
      joined.membership->say_goodbye(42);
      ::_exit(0);  // no handler runs: what was sent is all there is
    }
    TUTTI_TRY(
        expect(wait_until(*joined.membership, [&] { return joined.membership->liveness(Rank{1}) != Liveness::kAlive; }),
               "nothing was noticed"));
    std::this_thread::sleep_for(milliseconds(50));  // the end of its process must not change it
    TUTTI_TRY(expect(joined.membership->liveness(Rank{1}) == Liveness::kLeft, "a goodbye counts as a death"));
    TUTTI_TRY(expect(joined.membership->last_sequence(Rank{1}) == 42, "another sequence"));
    joined.membership->say_goodbye(0);
    return Status();
  });
  processes.wait();
  expect_all_ok(processes.page(), 1);
}

TEST(Membership, AProcessThatEndsInOrderHasLeft) {
  JoiningProcesses processes;
  processes.start_all(2, [](int rank, SharedPage& page) {
    auto* const joined = new JoinResult;  // never destroyed
    Hub::keep_until_exit(joined);
    TUTTI_TRY(test::join_by_page(rank, 2, page, joined));
    if (rank == 1) return Status();  // and then std::exit
    return expect(wait_for_life(*joined->membership, 1, Liveness::kLeft), "the exit was not noticed, or is a death");
  });
  processes.wait();
  expect_all_ok(processes.page(), 2);
}

TEST(Membership, TheFirstCauseWinsAndComesBeforeTheEnd) {
  JoiningProcesses processes;
  processes.start_all(3, [](int rank, SharedPage& page) {
    JoinResult joined;
    TUTTI_TRY(test::join_by_page(rank, 3, page, &joined));
    Membership& membership = *joined.membership;
    if (rank == 2) {
      membership.post_cause(FailureCause{Code::kMismatch, kNoRank, Rank{1}, "rank 1 called something else"});
      ::_exit(0);
    }
    TUTTI_TRY(expect(wait_for_life(membership, 2, Liveness::kDead), "the end was not noticed"));
    membership.post_cause(FailureCause{Code::kRemoteError, kNoRank, Rank{2}, "rank 2 died"});
    page.mark(0);
    page.wait_for_mark(0, 2);
    const FailureCause cause = membership.cause();
    TUTTI_TRY(expect(cause.code == Code::kMismatch && cause.from == Rank{2} && cause.culprit == Rank{1} &&
                         cause.text == "rank 1 called something else",
                     "another cause"));
    membership.say_goodbye(0);
    return Status();
  });
  processes.wait();
  expect_all_ok(processes.page(), 2);
}

TEST(Membership, ThreadsTellEachOther) {
  SharedPage page;
  test::run_threads(3, page, [](int rank, SharedPage& shared) {
    JoinResult joined;
    TUTTI_TRY(test::join_by_page(rank, 3, shared, &joined));
    Membership& membership = *joined.membership;
    if (rank == 0) membership.post_cause(FailureCause{Code::kTimeout, kNoRank, Rank{1}, "rank 1 is slow"});
    TUTTI_TRY(expect(wait_until(membership, [&] { return membership.cause().code != Code::kOk; }), "no cause came"));
    TUTTI_TRY(
        expect(membership.cause().from == Rank{0} && membership.cause().text == "rank 1 is slow", "another cause"));
    membership.say_goodbye(static_cast<std::uint64_t>(rank) + 1);
    for (int r = 0; r < 3; ++r) TUTTI_TRY(expect(wait_for_life(membership, r, Liveness::kLeft), "no goodbye came"));
    return expect(membership.last_sequence(Rank{2}) == 3, "another sequence");
  });
  expect_all_ok(page, 3);
}

TEST(Membership, GivingUpWithoutAGoodbyeIsAFailureOfThatRank) {
  SharedPage page;
  test::run_threads(2, page, [](int rank, SharedPage& shared) {
    JoinResult joined;
    TUTTI_TRY(test::join_by_page(rank, 2, shared, &joined));
    if (rank == 1) return Status();  // destroys the membership
    TUTTI_TRY(expect(wait_for_life(*joined.membership, 1, Liveness::kDead), "nothing was noticed"));
    const FailureCause cause = joined.membership->cause();
    joined.membership->say_goodbye(0);
    return expect(cause.code == Code::kRemoteError && cause.culprit == Rank{1}, "no cause names it");
  });
  expect_all_ok(page, 2);
}

TEST(Membership, AListenerIsNotCalledAfterItIsUnset) {
  SharedPage page;
  test::run_threads(2, page, [](int rank, SharedPage& shared) {
    JoinResult joined;
    TUTTI_TRY(test::join_by_page(rank, 2, shared, &joined));
    if (rank == 0) {
      std::atomic<int> running{0};
      std::atomic<int> calls{0};
      joined.membership->set_listener([&] {
        running.fetch_add(1);
        shared.mark(1);
        std::this_thread::sleep_for(milliseconds(50));
        calls.fetch_add(1);
        running.fetch_sub(1);
      });
      shared.mark(0);
      shared.wait_for_mark(1, 1);
      joined.membership->set_listener({});
      TUTTI_TRY(expect(running.load() == 0 && calls.load() >= 1, "it returned while a call was running"));
      const int before = calls.load();
      shared.mark(2);
      TUTTI_TRY(expect(wait_for_life(*joined.membership, 1, Liveness::kLeft), "no goodbye"));
      TUTTI_TRY(expect(calls.load() == before, "the old listener was called"));
    } else {
      shared.wait_for_mark(0, 1);
      joined.membership->post_cause(FailureCause{Code::kTimeout, kNoRank, kNoRank, "x"});
      shared.wait_for_mark(2, 1);
    }
    joined.membership->say_goodbye(0);
    return Status();
  });
  expect_all_ok(page, 2);
}

TEST(Membership, ProcessesOfSeveralRanksShareOneConnection) {
  JoiningProcesses processes;
  processes.start_all(2, [](int process, SharedPage& page) {
    IdBytes id;
    TUTTI_TRY(test::obtain_id(process, page, &id));
    SharedPage own;
    test::run_threads(3, own, [&](int thread, SharedPage&) {
      const int rank = 2 * thread + process;  // interleaved
      JoinResult joined;
      TUTTI_TRY(join(test::request_for(rank, 6, id), &joined));
      TUTTI_TRY(expect(joined.all_mapped && !joined.single_process, "wrong about who is where"));
      joined.membership->say_goodbye(static_cast<std::uint64_t>(rank));
      for (int r = 0; r < 6; ++r) {
        TUTTI_TRY(expect(wait_for_life(*joined.membership, r, Liveness::kLeft), "no goodbye came"));
        TUTTI_TRY(
            expect(joined.membership->last_sequence(Rank{r}) == static_cast<std::uint64_t>(r), "another sequence"));
      }
      return Status();
    });
    for (int thread = 0; thread < 3; ++thread)
      if (own.code(thread) != Code::kOk) return fail(own.code(thread), "{}", own.text(thread));
    return Status();
  });
  processes.wait();
  expect_all_ok(processes.page(), 2);
}

}  // namespace
}  // namespace tutti
