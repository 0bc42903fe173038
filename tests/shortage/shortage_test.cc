// At each point of a job at which a process asks for memory, a descriptor, a thread or a mapping, it gets none: nothing
// crashes, nothing hangs, nothing is wrong, and some rank says what was lacking.
#include "shortage/shortage.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <tuple>

#include "support/depth.h"
#include "support/job.h"
#include "support/rank_processes.h"
#include "support/shared_memory.h"

namespace tutti::test {
namespace {

constexpr int kRanks = 2;

/// What the process of a job tells the test.
struct Outcome {
  long requests;
  std::array<int, kRanks> results;
  char texts[kRanks][1000];
  char log[4000];
};

void keep_line(int, const char* line, void* user) {
  char* const log = static_cast<Outcome*>(user)->log;
  const std::size_t used = std::strlen(log);
  std::snprintf(log + used, sizeof Outcome::log - used, "\n%s", line);
}

/// In a process of its own.
[[noreturn]] void run_job(Scarce kind, long k, bool lasting, Outcome* outcome) {
  const auto rank_main = [outcome](const tuttiUniqueId& id, int rank) {
    const Job job(id, kRanks, rank, kWholeJob);
    if (!job.is_exact()) {
      std::fprintf(stderr, "rank %d: a wrong result\n", rank);
      ::_exit(3);
    }
    if (!job.is_gone()) {
      std::fprintf(stderr, "rank %d: a communicator that has been destroyed is still there\n", rank);
      ::_exit(5);
    }
    outcome->results[static_cast<std::size_t>(rank)] = job.result();
    std::strcpy(outcome->texts[rank], job.text());
  };
  // The test's own thread is there before the shortage.
  std::atomic<int> go{0};
  tuttiUniqueId id{};
  std::thread other([&] {
    while (go == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (go == 1) rank_main(id, 1);
  });
  (void)tuttiSetLogCallback(&keep_line, outcome);
  make_scarce(kind, k, lasting);
  const tuttiResult_t made = tuttiGetUniqueId(&id);
  go = made == tuttiSuccess ? 1 : 2;
  if (made == tuttiSuccess) {
    rank_main(id, 0);
  } else {
    outcome->results[0] = made;
    std::snprintf(outcome->texts[0], sizeof outcome->texts[0], "%s", tuttiGetLastError(nullptr));
  }
  other.join();
  outcome->requests = end_scarcity(kind);
  sigset_t blocked;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  std::exit(::sigismember(&blocked, SIGTERM) != 0 ? 4 : 0);
}

struct Shortage {
  const char* name;
  Scarce kind;
  bool lasting;
  const char* word;         // in the text of one of the ranks, or in the log
  long most_points = 1000;  // tried in all, and in a short run
  long points = 50;
};

std::string words_of(const Outcome& outcome) {
  return std::string(outcome.texts[0]) + " | " + outcome.texts[1] + " | " + outcome.log;
}

class Shortages : public ::testing::TestWithParam<std::tuple<Shortage, const char*>> {
 protected:
  Shortages() {
    ::setenv("TUTTI_TRANSPORT", std::get<1>(GetParam()), 1);
    ::setenv("TUTTI_LOG", "error", 1);
    ::setenv("TUTTI_TIMEOUT", "30", 1);
    ::setenv("TUTTI_JOIN_TIMEOUT", "1", 1);
  }
  ~Shortages() override {
    for (const char* name : {"TUTTI_TRANSPORT", "TUTTI_LOG", "TUTTI_TIMEOUT", "TUTTI_JOIN_TIMEOUT"}) ::unsetenv(name);
  }

  /// The wait status.
  int run(long k) {
    const Shortage& shortage = std::get<0>(GetParam());
    outcome_.reset();
    return end_of_process([&] { run_job(shortage.kind, k, shortage.lasting, &*outcome_); });
  }

  SharedMemory<Outcome> outcome_;
};

TEST_P(Shortages, AtAnyPointIsAnError) {
  const Shortage& shortage = std::get<0>(GetParam());
  ASSERT_EQ(run(1'000'000'000), 0);
  const long requests = outcome_->requests;
  ASSERT_EQ(outcome_->results, (std::array<int, kRanks>{})) << words_of(*outcome_);
  if (requests == 0) GTEST_SKIP() << "a job of this kind asks for none";
  RecordProperty("requests", static_cast<int>(requests));
  const long step = std::max(1L, requests / points_tried(shortage.most_points, shortage.points));
  const char* const only = std::getenv("TEST_REQUEST");  // this one alone
  int failures = 0;
  for (long k = only != nullptr ? std::atol(only) : 1; k <= requests; k += only != nullptr ? requests : step) {
    const auto begin = std::chrono::steady_clock::now();
    const int end = run(k);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    ASSERT_EQ(end, 0) << "request " << k << " of " << requests << ": " << words_of(*outcome_);
    EXPECT_LT(took.count(), 15) << "request " << k << " of " << requests << ": " << words_of(*outcome_);
    if (outcome_->results == std::array<int, kRanks>{}) continue;  // it could do without
    ++failures;
    EXPECT_NE(words_of(*outcome_).find(shortage.word), std::string::npos)
        << "request " << k << " of " << requests << ": " << outcome_->results[0] << " " << outcome_->results[1] << " "
        << words_of(*outcome_);
  }
  if (only == nullptr) {
    EXPECT_GT(failures, 0) << "the case checks nothing";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Of, Shortages,
    ::testing::Combine(
        ::testing::Values(Shortage{"memory", Scarce::kMemory, false, "memory"},
                          Shortage{"memory_from_there_on", Scarce::kMemory, true, "memory", 20, 4},
                          Shortage{"descriptors", Scarce::kDescriptors, true, "Too many open files", 1000, 10},
                          Shortage{"threads", Scarce::kThreads, false, "thread"},
                          Shortage{"threads_from_there_on", Scarce::kThreads, true, "thread", 200, 10},
                          Shortage{"mappings", Scarce::kMappings, false, "Cannot allocate memory"},
                          Shortage{"mappings_from_there_on", Scarce::kMappings, true, "Cannot allocate memory"}),
        ::testing::Values("shm", "tcp")),
    [](const auto& info) { return std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param); });

/// In a process of its own, which has a communicator: the k-th request for memory of its first id finds none. The exit
/// code is 0 if all is well and there was such a request, 1 if there was none.
[[noreturn]] void make_first_id(long k) {
  const auto expect = [](bool right, int code) {
    if (!right) ::_exit(code);
  };
  tuttiComm_t comm = nullptr;
  expect(tuttiCommInitAll(&comm, 1, nullptr) == tuttiSuccess, 2);
  tuttiUniqueId id;
  make_scarce(Scarce::kMemory, k, false);
  const tuttiResult_t lacking = tuttiGetUniqueId(&id);
  const long requests = end_scarcity(Scarce::kMemory);
  if (lacking != tuttiSuccess) {
    expect(std::strstr(tuttiGetLastError(nullptr), "memory") != nullptr, 3);
    expect(tuttiGetUniqueId(&id) == tuttiSuccess, 4);
  }
  tuttiComm_t other = nullptr;
  expect(tuttiCommInitRank(&other, 1, id, 0) == tuttiSuccess, 5);
  for (const tuttiComm_t each : {comm, other}) {
    expect(tuttiBarrier(each, nullptr) == tuttiSuccess, 6);
    expect(tuttiCommDestroy(each) == tuttiSuccess, 7);
  }
  ::_exit(requests >= k ? 0 : 1);
}

// The service that hands out ids is made with the first of them, by the thread that serves the communicator as well.
TEST(ShortageOfMemory, ForAFirstIdLeavesTheCommunicatorWell) {
  long k = 1;
  for (; k < 1000; ++k) {
    const int end = end_of_process([k] { make_first_id(k); });
    if (WIFEXITED(end) && WEXITSTATUS(end) == 1) break;
    ASSERT_EQ(end, 0) << "request " << k;
  }
  EXPECT_GT(k, 5) << "the case checks nothing";
  RecordProperty("requests", static_cast<int>(k - 1));
}

/// In a process of its own with two ranks, of which one waits in a call: the other aborts, and has no memory for it.
/// The exit code is 0 if the call ends long before its deadline of 30 s.
[[noreturn]] void abort_without_memory() {
  std::array<tuttiComm_t, kRanks> comms{};
  if (tuttiCommInitAll(comms.data(), kRanks, nullptr) != tuttiSuccess) ::_exit(2);
  std::atomic<int> result{-1};
  std::thread waiting([&] { result = tuttiBarrier(comms[1], nullptr); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  make_scarce(Scarce::kMemory, 1, true);
  const bool aborted = tuttiCommAbort(comms[0]) == tuttiSuccess;
  const auto begin = std::chrono::steady_clock::now();
  waiting.join();
  const bool soon = std::chrono::steady_clock::now() - begin < std::chrono::seconds(5);
  (void)end_scarcity(Scarce::kMemory);
  ::_exit(!aborted ? 3 : result == tuttiSuccess ? 4 : !soon ? 5 : 0);
}

TEST(ShortageOfMemory, DoesNotKeepAnAbortFromTheRanksOfTheProcess) {
  ::setenv("TUTTI_TIMEOUT", "30", 1);
  const int end = end_of_process(&abort_without_memory);
  ::unsetenv("TUTTI_TIMEOUT");
  EXPECT_EQ(end, 0);
}

}  // namespace
}  // namespace tutti::test
