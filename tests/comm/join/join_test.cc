// Covers comm/join/join.cc, comm/join/join_task.cc.
#include "comm/join/join.h"

#include <atomic>
#include <memory>
#include <vector>

#include "core/core_list.h"
#include "support/joining_processes.h"

namespace tutti {
namespace {

using test::JoiningProcesses;
using test::SharedPage;

/// Writes a mark into the own segment, waits for the peers' marks in theirs: the mappings are real and are the right
/// ones.
Status exchange_through_segments(const JoinResult& joined, int rank, int ranks) {
  const auto flag = [&](int r, std::size_t at) {
    return std::atomic_ref<std::uint32_t>(reinterpret_cast<std::uint32_t*>(joined.segments.of(Rank{r})->data())[at]);
  };
  for (int r = 0; r < ranks; ++r) {
    if (joined.segments.of(Rank{r}) == nullptr) return fail(Code::kInternalError, "no segment of rank {}", r);
    flag(r, static_cast<std::size_t>(rank)).store(static_cast<std::uint32_t>(100 + rank), std::memory_order_release);
  }
  for (int r = 0; r < ranks; ++r) {
    const auto written = [&] {
      return flag(rank, static_cast<std::size_t>(r)).load(std::memory_order_acquire) ==
             static_cast<std::uint32_t>(100 + r);
    };
    if (!test::comes_true(written)) return fail(Code::kTimeout, "rank {} did not write", r);
  }
  return {};
}

Status join_and_exchange(int rank, int ranks, SharedPage& page, bool single_process) {
  JoinResult joined;
  TUTTI_TRY(test::join_by_page(rank, ranks, page, &joined));
  TUTTI_TRY(exchange_through_segments(joined, rank, ranks));
  if (joined.single_process != single_process || !joined.all_mapped)
    return fail(Code::kInternalError, "wrong about who is where");
  if (joined.membership->rank() != Rank{rank} || joined.membership->ranks() != ranks)
    return fail(Code::kInternalError, "another membership");
  joined.membership->say_goodbye(1);
  return {};
}

class JoinRanks : public testing::TestWithParam<int> {};

TEST_P(JoinRanks, ThreadsShareSegments) {
  const int ranks = GetParam();
  SharedPage page;
  test::run_threads(ranks, page,
                    [ranks](int rank, SharedPage& shared) { return join_and_exchange(rank, ranks, shared, true); });
  for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(page.code(rank), Code::kOk) << page.text(rank);
  EXPECT_TRUE(wait_for_no_hub(test::kPatience));
}

TEST_P(JoinRanks, ProcessesShareSegments) {
  const int ranks = GetParam();
  JoiningProcesses processes;
  processes.start_all(
      ranks, [ranks](int rank, SharedPage& shared) { return join_and_exchange(rank, ranks, shared, ranks == 1); });
  processes.wait();
  for (int rank = 0; rank < ranks; ++rank)
    EXPECT_EQ(processes.page().code(rank), Code::kOk) << processes.page().text(rank);
}

INSTANTIATE_TEST_SUITE_P(Sizes, JoinRanks, testing::Values(1, 2, 3, 5, 8));

// The time of the stop is over for the joining thread as well as for the service thread, which knows who is missing.
TEST(TimedJoin, AProcessThatWasStoppedNamesWhoIsMissing) {
  constexpr int kTries = 8;
  JoiningProcesses processes;
  processes.start_all(kTries, [](int, SharedPage& shared) {
    IdBytes id;
    TUTTI_TRY(make_unique_id(Settings{}, &id));
    shared.mark(0);
    JoinResult joined;
    return join(test::request_for(0, 2, id, 0.5), &joined);
  });
  ASSERT_TRUE(processes.page().wait_for_mark(0, kTries));
  for (int index = 0; index < kTries; ++index) test::stop_process(processes.pid(index));
  std::this_thread::sleep_for(std::chrono::milliseconds(4000));  // longer than the deadline and all that is added to it
  for (int index = 0; index < kTries; ++index) processes.signal(index, SIGCONT);
  processes.wait();
  for (int index = 0; index < kTries; ++index) {
    EXPECT_EQ(processes.page().code(index), Code::kTimeout) << processes.page().text(index);
    EXPECT_NE(processes.page().text(index).find("rank 1"), std::string::npos) << processes.page().text(index);
  }
}

/// How many cores and ranks a core the ranks find, by rank.
struct CoresFound {
  explicit CoresFound(std::size_t ranks) : of_rank_0(0), ranks_per_core(ranks) {}
  std::atomic<int> of_rank_0;
  std::vector<int> ranks_per_core;
};
std::unique_ptr<CoresFound> join_on(const std::vector<std::vector<int>>& lists) {
  const auto ranks = static_cast<int>(lists.size());
  SharedPage page;
  auto found = std::make_unique<CoresFound>(lists.size());
  test::run_threads(ranks, page, [&](int rank, SharedPage& shared) -> Status {
    IdBytes id;
    TUTTI_TRY(test::obtain_id(rank, shared, &id));
    JoinRequest request = test::request_for(rank, ranks, id);
    request.cores = lists[static_cast<std::size_t>(rank)];
    JoinResult joined;
    TUTTI_TRY(join(request, &joined));
    if (rank == 0) found->of_rank_0 = joined.same_boot_cores;
    found->ranks_per_core[static_cast<std::size_t>(rank)] = joined.ranks_per_core;
    return {};
  });
  for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(page.code(rank), Code::kOk) << page.text(rank);
  return found;
}
int cores_found(const std::vector<std::vector<int>>& lists) { return join_on(lists)->of_rank_0; }

// Open MPI binds each of two ranks to one core: neither has to make room for the other.
TEST(Join, RanksHearOfEachOthersCores) {
  EXPECT_EQ(cores_found({{0}, {1}, {2}}), 3);
  EXPECT_EQ(cores_found({{0}, {0}, {0}}), 1);
  EXPECT_EQ(cores_found({{}, {}, {}}), 1) << "unknown";
}

// Algorithms are chosen by this number, so that ranks that do not agree on it would not understand each other.
TEST(Join, RanksPerCoreAreEqualOnAllRanks) {
  EXPECT_EQ(join_on({{0}, {1}, {2}})->ranks_per_core, (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(join_on({{0}, {0}, {0}})->ranks_per_core, (std::vector<int>{3, 3, 3}));
  EXPECT_EQ(join_on({{0, 1}, {1}, {1}})->ranks_per_core, (std::vector<int>{2, 2, 2}));
  EXPECT_EQ(join_on({{0}, {}, {0}})->ranks_per_core, (std::vector<int>{1, 1, 1})) << "one is unknown";
}

// Hosts of two sockets may count cores in turn: a rank that is bound to the 128 of one socket has a list of 457
// letters.
TEST(Join, ALongListOfCoresIsNotOneCore) {
  std::vector<int> even;
  for (int core = 0; core < 256; core += 2) even.push_back(core);
  ASSERT_EQ(core_list_text(even), "") << "short enough to be told";
  EXPECT_EQ(cores_found({even, even}), 128);
}

}  // namespace
}  // namespace tutti
