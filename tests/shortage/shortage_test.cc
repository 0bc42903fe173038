// At each point of a job at which a process asks for memory, a descriptor, a thread or a mapping, it gets none, also
// while it makes lost connections again: nothing crashes, nothing hangs, nothing is wrong, and some rank says what was
// lacking.
// Covers comm/recovery/process_recovery.cc, comm/shrink.cc, core/status.cc, comm/failure/failure_handler.cc,
// comm/join/join_task.cc, comm/queue/progress_thread.cc.
#include "shortage/shortage.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "shortage/points.h"
#include "support/connections.h"
#include "support/job.h"
#include "support/rank_processes.h"
#include "support/scoped_setting.h"
#include "support/shared_memory.h"

namespace tutti::test {
namespace {

constexpr int kRanks = 2;

/// What the process of a job tells the test.
struct Outcome {
  long requests;
  long cuts;
  std::array<int, kRanks> results;
  char texts[kRanks][1000];
  char log[4000];
};

void keep_line(int, const char* line, void* user) {
  char* const log = static_cast<Outcome*>(user)->log;
  const std::size_t used = std::strlen(log);
  std::snprintf(log + used, sizeof Outcome::log - used, "\n%s", line);
}

/// A job, and how its ranks are linked.
struct Place {
  const char* name;
  const char* transport;
  std::span<const Job::Part> parts;
  bool from_cut = false;  // the requests count from the first lost connection on
};

/// Between its calls and in the middle of one, the connections of a rank are cut: they are made again by the next call,
/// on a stream by the progress thread, in a split beside those of the new communicator, and by the end.
constexpr std::array<Job::Part, 12> kCutJob{&Job::add,     &Job::add_much, &Job::cut,      &Job::add,
                                            &Job::add_cut, &Job::cut,      &Job::exchange, &Job::cut,
                                            &Job::stream,  &Job::cut,      &Job::split,    &Job::cut};

constexpr std::array<Job::Part, 6> kShrunkJob{&Job::add,    &Job::add_much, &Job::split,
                                              &Job::shrink, &Job::stream,   &Job::exchange};
constexpr std::array<Place, 2> kPlaces{{{"shm", "shm", kShrunkJob}, {"tcp", "tcp", kShrunkJob}}};
constexpr Place kCutPlace{"tcp_cut", "tcp", kCutJob, true};

void run_rank(const Place& place, const tuttiUniqueId& id, int rank, Outcome* outcome) {
  const Job job(id, kRanks, rank, place.parts);
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
}

/// In a process of its own.
[[noreturn]] void run_job(const Place& place, const Shortage& shortage, long k, Outcome* outcome) {
  // The test's own thread is there before the shortage.
  std::atomic<int> go{0};
  tuttiUniqueId id{};
  std::thread other([&] {
    while (go == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (go == 1) run_rank(place, id, 1, outcome);
  });
  (void)tuttiSetLogCallback(&keep_line, outcome);
  bool is_first = place.from_cut;
  Job::at_cut = [&](int rank) {
    if (rank != 0) return;
    if (std::exchange(is_first, false)) make_scarce(shortage.kind, k, shortage.lasting);
    outcome->cuts += cut_connections();
  };
  if (!place.from_cut) make_scarce(shortage.kind, k, shortage.lasting);
  const tuttiResult_t made = tuttiGetUniqueId(&id);
  go = made == tuttiSuccess ? 1 : 2;
  if (made == tuttiSuccess) {
    run_rank(place, id, 0, outcome);
  } else {
    outcome->results[0] = made;
    std::snprintf(outcome->texts[0], sizeof outcome->texts[0], "%s", tuttiGetLastError(nullptr));
  }
  other.join();
  outcome->requests = end_scarcity(shortage.kind);
  sigset_t blocked;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  std::exit(::sigismember(&blocked, SIGTERM) != 0 ? 4 : 0);
}

class Shortages : public ::testing::TestWithParam<std::tuple<Shortage, Place>> {
 protected:
  Ending run(long k) {
    const auto& [shortage, place] = GetParam();
    outcome_.reset();
    Ending ending;
    ending.orderly =
        end_of_process([&, &shortage = shortage, &place = place] { run_job(place, shortage, k, &*outcome_); }) == 0;
    ending.successful = outcome_->results == std::array<int, kRanks>{};
    ending.requests = outcome_->requests;
    if (k == kNever && place.from_cut) {
      EXPECT_GE(outcome_->cuts, 5) << "there was nothing to cut";
    }
    ending.words = std::to_string(outcome_->results[0]) + " " + outcome_->texts[0] + " | " +
                   std::to_string(outcome_->results[1]) + " " + outcome_->texts[1] + " | " + outcome_->log;
    return ending;
  }

 private:
  const ScopedSetting transport_{"TUTTI_TRANSPORT", std::get<1>(GetParam()).transport};
  const ScopedSetting log_{"TUTTI_LOG", "error"};
  const ScopedSetting timeout_{"TUTTI_TIMEOUT", "30"};
  const ScopedSetting join_timeout_{"TUTTI_JOIN_TIMEOUT", "2"};  // a lack of descriptors is an error after a second
  const ScopedSetting reconnect_{"TUTTI_RECONNECT", "2"};
  SharedMemory<Outcome> outcome_;
};

TEST_P(Shortages, AtAnyPointIsAnError) {
  expect_errors_at_points(std::get<0>(GetParam()), [this](long k) { return run(k); });
}

const auto kShortageAndPlace = [](const auto& info) {
  return std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param).name;
};
INSTANTIATE_TEST_SUITE_P(Of, Shortages,
                         ::testing::Combine(::testing::ValuesIn(kShortages), ::testing::ValuesIn(kPlaces)),
                         kShortageAndPlace);
// Nothing is mapped after the first loss.
INSTANTIATE_TEST_SUITE_P(OfReconnects, Shortages,
                         ::testing::Combine(::testing::ValuesIn(std::span(kShortages).first<kUnmapped>()),
                                            ::testing::Values(kCutPlace)),
                         kShortageAndPlace);

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

/// In a process of its own with two ranks, of which one never calls: the other's call on a stream has no memory from
/// its first round on. The exit code is 0 if it ends by its deadline.
[[noreturn]] void wait_for_a_stream_without_memory() {
  std::array<tuttiComm_t, kRanks> comms{};
  tuttiStream_t stream = nullptr;
  if (tuttiCommInitAll(comms.data(), kRanks, nullptr) != tuttiSuccess) ::_exit(2);
  if (tuttiStreamCreate(&stream) != tuttiSuccess) ::_exit(3);
  if (tuttiBarrier(comms[0], stream) != tuttiSuccess) ::_exit(4);
  make_scarce(Scarce::kMemory, 1, true);
  const tuttiResult_t result = tuttiStreamSynchronize(stream);
  (void)end_scarcity(Scarce::kMemory);
  ::_exit(result == tuttiSuccess ? 5 : 0);
}

TEST(ShortageOfMemory, DoesNotKeepACallOnAStreamFromItsDeadline) {
  const ScopedSetting timeout("TUTTI_TIMEOUT", "1");
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  if (child == 0) wait_for_a_stream_without_memory();
  EXPECT_EQ(await_end(child), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
}

}  // namespace
}  // namespace tutti::test
