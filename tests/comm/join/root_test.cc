// Covers comm/join/root.cc.
// What the root decides: joins that must fail, on every rank and with the names in the text.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "core/log.h"
#include "support/joining_processes.h"
#include "support/texts.h"

namespace tutti {
namespace {

using test::contains;
using test::JoiningProcesses;
using test::SharedPage;

struct JoinPlan {
  int rank;
  int ranks;
  double seconds = test::kFarSeconds;
  std::vector<AgreedSetting> agreed{};
};

/// One thread a plan joins by one id; reports by position in `plans`.
std::unique_ptr<const SharedPage> join_as_planned(const std::vector<JoinPlan>& plans) {
  auto page = std::make_unique<SharedPage>();
  IdBytes id;
  EXPECT_TRUE(make_unique_id(Settings{}, &id).ok());
  test::run_threads(static_cast<int>(plans.size()), *page, [&](int index, SharedPage&) {
    const JoinPlan& plan = plans[static_cast<std::size_t>(index)];
    JoinRequest request = test::request_for(plan.rank, plan.ranks, id, plan.seconds);
    request.agreed = plan.agreed;
    JoinResult joined;
    return join(request, &joined);
  });
  return page;
}

TEST(Rendezvous, ADuplicateRankIsAnErrorOnAllRanks) {
  const auto page = join_as_planned({{0, 4}, {1, 4}, {1, 4}, {2, 4}});
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(page->code(i), Code::kInvalidArgument) << page->text(i);
    EXPECT_TRUE(contains(page->text(i), "rank 1 joined twice")) << page->text(i);
    EXPECT_TRUE(contains(page->text(i), fmt::format("process {}", ::getpid()))) << page->text(i);
  }
}

// The soft limit of many systems is 1,024: the root would have no descriptor for the rank after that.
TEST(Rendezvous, TheRootMayHaveDescriptorsForManyRanks) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit lower{256, before.rlim_max};
  const auto limit_after_join_of = [&](int ranks) {
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &lower), 0);
    EXPECT_EQ(join_as_planned({{0, ranks, 0.2}})->code(0), Code::kTimeout);
    rlimit after{};
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &after), 0);
    return after.rlim_cur;
  };
  EXPECT_EQ(limit_after_join_of(2), 256u);
  EXPECT_EQ(limit_after_join_of(1000), std::min<rlim_t>(2 * 1000 + 1024, before.rlim_max));
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(Rendezvous, ADuplicateRankOfAnotherProcessIsNamed) {
  JoiningProcesses processes;
  for (const int rank : {0, 1, 1})
    processes.start(rank, [](int self, SharedPage& page) {
      const int index = page.marks[0].fetch_add(1);  // reports of the twins must not share a place
      IdBytes id;
      TUTTI_TRY(test::obtain_id(self, page, &id));
      JoinResult joined;
      const Status status = join(test::request_for(self, 3, id), &joined);
      page.report(8 + index, status);
      page.mark(1);
      page.wait_for_mark(1, 3);
      return status;
    });
  processes.wait();
  for (int i = 0; i < 3; ++i) {
    const std::string text = processes.page().text(8 + i);
    EXPECT_EQ(processes.page().code(8 + i), Code::kInvalidArgument) << text;
    EXPECT_TRUE(contains(text, "rank 1 joined twice: process ") && contains(text, " and process ")) << text;
  }
}

TEST(Rendezvous, DifferentNumbersOfRanksAreAnErrorOnAllRanks) {
  const auto page = join_as_planned({{0, 3}, {1, 3}, {2, 4}});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(page->code(i), Code::kInvalidArgument) << page->text(i);
    EXPECT_TRUE(contains(page->text(i), "with 3") && contains(page->text(i), "with 4")) << page->text(i);
    EXPECT_TRUE(contains(page->text(i), "rank 2")) << page->text(i);
  }
}

TEST(Rendezvous, DifferentSettingsAreAMismatchOnAllRanks) {
  const std::vector<AgreedSetting> ring{{"TUTTI_TRANSPORT", "auto"}, {"TUTTI_ALGO", "ring"}};
  const std::vector<AgreedSetting> tree{{"TUTTI_TRANSPORT", "auto"}, {"TUTTI_ALGO", "tree"}};
  const auto page = join_as_planned(
      {{0, 3, test::kFarSeconds, ring}, {1, 3, test::kFarSeconds, tree}, {2, 3, test::kFarSeconds, ring}});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(page->code(i), Code::kMismatch) << page->text(i);
    EXPECT_TRUE(contains(page->text(i), "TUTTI_ALGO")) << page->text(i);
    EXPECT_TRUE(contains(page->text(i), "\"ring\" on ranks 0 and 2")) << page->text(i);
    EXPECT_TRUE(contains(page->text(i), "\"tree\" on rank 1")) << page->text(i);
  }
}

TEST(Rendezvous, ASettingThatOnlyALaterRankHasIsAMismatch) {
  const std::vector<AgreedSetting> without{{"TUTTI_TRANSPORT", "auto"}};
  const std::vector<AgreedSetting> with{{"TUTTI_TRANSPORT", "auto"}, {"TUTTI_NEW", "on"}};
  const auto page = join_as_planned({{0, 2, test::kFarSeconds, without}, {1, 2, test::kFarSeconds, with}});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(page->code(i), Code::kMismatch) << page->text(i);
    EXPECT_TRUE(contains(page->text(i), "TUTTI_NEW")) << page->text(i);
  }
}

TEST(Rendezvous, MissingRanksAreNamedAtTheFirstDeadline) {
  const auto page = join_as_planned({{0, 5, 4}, {2, 5}, {3, 5}});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(page->code(i), Code::kTimeout) << page->text(i);
    EXPECT_TRUE(contains(page->text(i), "ranks 1 and 4 of 5 did not join")) << page->text(i);
  }
}

TEST(Rendezvous, ARankThatComesAfterTheFailureIsToldTheCause) {
  IdBytes id;
  ASSERT_TRUE(make_unique_id(Settings{}, &id).ok());
  std::shared_ptr<Hub> hub;  // knows the answer as long as it lives
  ASSERT_TRUE(Hub::acquire(Settings{}, &hub).ok());
  JoinResult joined;
  EXPECT_EQ(join(test::request_for(0, 2, id, 3), &joined).code(), Code::kTimeout);
  const Status late = join(test::request_for(1, 2, id), &joined);
  EXPECT_EQ(late.code(), Code::kTimeout) << late.text();
  EXPECT_TRUE(contains(late.text(), "rank 1 of 2 did not join")) << late.text();
}

TEST(Rendezvous, AnIdMakesOneCommunicator) {
  IdBytes id;
  ASSERT_TRUE(make_unique_id(Settings{}, &id).ok());
  JoinResult first;
  ASSERT_TRUE(join(test::request_for(0, 1, id), &first).ok());
  JoinResult second;
  const Status again = join(test::request_for(0, 1, id), &second);
  EXPECT_EQ(again.code(), Code::kInvalidUsage) << again.text();
  EXPECT_TRUE(contains(again.text(), "used already")) << again.text();
  EXPECT_EQ(first.membership->liveness(Rank{0}), Liveness::kAlive);
}

TEST(Rendezvous, ABadIdIsRefused) {
  IdBytes id{};
  JoinResult joined;
  EXPECT_EQ(join(test::request_for(0, 1, id), &joined).code(), Code::kInvalidArgument);
}

TEST(Rendezvous, AnIdOfADeadProcessIsRefusedAtOnce) {
  JoiningProcesses processes;
  processes.start(0, [](int, SharedPage& page) {
    IdBytes id;
    TUTTI_TRY(make_unique_id(Settings{}, &id));
    page.publish(id);
    return Status();
  });
  processes.wait();
  JoinResult joined;
  const Status status = join(test::request_for(1, 2, processes.page().wait_for_id()), &joined);
  EXPECT_EQ(status.code(), Code::kRemoteError);
  EXPECT_TRUE(contains(status.text(), "nobody serves this unique id")) << status.text();
}

TEST(Rendezvous, TheEndOfTheRootDuringTheJoinIsTold) {
  JoiningProcesses processes;
  processes.start(0, [](int, SharedPage& page) {  // makes the id, is no rank
    IdBytes id;
    TUTTI_TRY(make_unique_id(Settings{}, &id));
    page.publish(id);
    test::await_kill();
    return Status();
  });
  processes.start(1, [](int, SharedPage& page) {
    JoinResult joined;
    page.wait_for_id();
    page.mark(1);
    return join(test::request_for(0, 2, page.wait_for_id()), &joined);
  });
  ASSERT_TRUE(processes.page().wait_for_mark(1, 1));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  processes.kill(0);
  processes.wait();
  EXPECT_EQ(processes.page().code(1), Code::kRemoteError);
  EXPECT_TRUE(contains(processes.page().text(1), "serves th")) << processes.page().text(1);
}

/// Rank 2 of four stops when it has joined, before rank 3 comes, so the table of all ranks gets no further than rank 2.
/// All others must name it. `seconds`: what ranks 0, 1 and 3 wait. Ranks report a little before their time is up.
void stop_one_while_joining(const std::array<double, 4>& seconds) {
  JoiningProcesses processes;
  processes.start_all(4, [&seconds](int rank, SharedPage& page) {
    IdBytes id;
    TUTTI_TRY(test::obtain_id(rank, page, &id));
    const auto waits_for_rank_3 = [](int, const char* line, void* user) {  // the root tells it
      if (contains(line, "is waiting for rank 3")) static_cast<SharedPage*>(user)->mark(1);
    };
    if (rank == 1) log_configure(LogLevel::kWarn, ""), log_set_callback(waits_for_rank_3, &page);
    if (rank == 3) page.wait_for_mark(2, 1);
    JoinResult joined;  // half of the time is over when it says that
    return join(test::request_for(rank, 4, id, seconds[static_cast<std::size_t>(rank)]), &joined);
  });
  ASSERT_TRUE(processes.page().wait_for_mark(1, 1));
  test::stop_process(processes.pid(2));
  processes.page().mark(2);
  const std::string named = fmt::format("rank 2 (process {} on host ", processes.pid(2));
  for (const int rank : {0, 1, 3}) {
    test::await([&] { return processes.page().code(rank) != Code{-1}; }, "the end of the join");
    EXPECT_EQ(processes.page().code(rank), Code::kTimeout) << processes.page().text(rank);
    EXPECT_TRUE(processes.page().text(rank).starts_with(named)) << processes.page().text(rank);
    EXPECT_TRUE(contains(processes.page().text(rank), " does not answer; ")) << processes.page().text(rank);
  }
  processes.kill(2);
  processes.wait();
}

TEST(TimedRendezvous, ARankThatStopsWhileJoiningIsNamedByThoseWhoWaitForOthers) {
  stop_one_while_joining({test::kFarSeconds, 4, test::kFarSeconds, test::kFarSeconds});
}

// The second one's time is up while the root waits for answers.
TEST(TimedRendezvous, ARankThatStopsWhileJoiningIsNamedByAllWhoseTimeIsUpThen) {
  stop_one_while_joining({4.25, 4, test::kFarSeconds, 2.25});
}

TEST(Rendezvous, ARankThatDiesWhileJoiningIsNamed) {
  JoiningProcesses processes;
  processes.start_all(2, [](int rank, SharedPage& page) {
    IdBytes id;
    TUTTI_TRY(test::obtain_id(rank, page, &id));
    const auto waits_for_rank_2 = [](int, const char* line, void* user) {  // the root tells it
      if (contains(line, "is waiting for rank 2")) static_cast<SharedPage*>(user)->mark(1);
    };
    if (rank == 1) log_configure(LogLevel::kWarn, ""), log_set_callback(waits_for_rank_2, &page);
    JoinResult joined;  // half of the time is over when it says that
    return join(test::request_for(rank, 3, id, rank == 1 ? 8 : test::kFarSeconds), &joined);
  });
  ASSERT_TRUE(processes.page().wait_for_mark(1, 1));
  const pid_t victim = processes.pid(1);
  processes.kill(1);
  processes.wait();
  EXPECT_EQ(processes.page().code(0), Code::kRemoteError);
  EXPECT_TRUE(contains(processes.page().text(0), fmt::format("rank 1 (process {}", victim)))
      << processes.page().text(0);
}

TEST(Rendezvous, RanksOfDifferentHostIdsConnectByTcp) {
  JoiningProcesses processes;
  processes.start_all(3, [](int rank, SharedPage& page) {
    IdBytes id;
    TUTTI_TRY(test::obtain_id(rank, page, &id));
    JoinRequest request = test::request_for(rank, 3, id);
    request.settings.host_id = rank == 2 ? "elsewhere" : "here";
    JoinResult joined;
    TUTTI_TRY(join(request, &joined));
    if (joined.all_mapped) return fail(Code::kInternalError, "one host");
    for (int r = 0; r < 3; ++r)
      if ((joined.segments.of(Rank{r}) != nullptr) != ((r == 2) == (rank == 2)))
        return fail(Code::kInternalError, "segment of rank {} at rank {}", r, rank);
    joined.membership->say_goodbye(static_cast<std::uint64_t>(rank) + 5);
    for (int r = 0; r < 3; ++r)
      if (!test::comes_true([&] { return joined.membership->liveness(Rank{r}) == Liveness::kLeft; }))
        return fail(Code::kTimeout, "no goodbye of rank {}", r);
    return joined.membership->last_sequence(Rank{2}) == 7 ? Status() : fail(Code::kInternalError, "7");
  });
  processes.wait();
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(processes.page().code(rank), Code::kOk) << processes.page().text(rank);
}

TEST(Rendezvous, ManyCommunicatorsAtATime) {
  constexpr int kComms = 6;
  SharedPage page;
  std::array<IdBytes, kComms> ids;
  for (IdBytes& id : ids) ASSERT_TRUE(make_unique_id(Settings{}, &id).ok());
  test::run_threads(12, page, [&](int thread, SharedPage&) {
    JoinResult joined;
    const Status status = join(test::request_for(thread % 2, 2, ids[static_cast<std::size_t>(thread / 2)]), &joined);
    if (status.ok()) joined.membership->say_goodbye(0);
    return status;
  });
  for (int i = 0; i < 12; ++i) EXPECT_EQ(page.code(i), Code::kOk) << page.text(i);
}

}  // namespace
}  // namespace tutti
