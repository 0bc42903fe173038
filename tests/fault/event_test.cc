// What happens to a process in each state of the library: it forks, starts a program, gets signals, changes its user,
// or ends in one of the ways in which processes end. The table of the outcomes is in docs/design/failure.md.
// Covers net/fork_guard.cc, comm/membership/hub.cc.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <tuple>
#include <vector>

#include "support/inherited_descriptors.h"
#include "support/ranks.h"
#include "support/texts.h"
#include "support/yardstick.h"

namespace tutti::test {
namespace {

enum class State { kJoined, kSplit, kStream, kGroup, kDestroyed, kAborted };
struct NamedState {
  const char* name;
  State state;
  const char* transport;
  const char* tls;
};

enum class Event { kFork, kStart, kSignals, kUser, kExit, kExitDestroys, kQuit, kTerminate, kExecute };
struct NamedEvent {
  const char* name;
  Event event;
  bool ends;         // the process
  const char* word;  // in the error of the other rank
};

constexpr std::size_t kCount = 300'000;

bool has_communicator(State state) { return state != State::kDestroyed && state != State::kAborted; }

/// The sum of both ranks' 1.
tuttiResult_t add(tuttiComm_t comm, std::vector<int>* data, tuttiStream_t stream = nullptr) {
  std::fill(data->begin(), data->end(), 1);
  return tuttiAllReduce(data->data(), data->data(), data->size(), tuttiInt32, tuttiSum, comm, stream);
}

bool is_sum(const std::vector<int>& data) {
  return std::all_of(data.begin(), data.end(), [](int value) { return value == 2; });
}

/// One of the two ranks: brought into the state, then left by the other, or going on to its end.
class Rank {
 public:
  Rank(State state, tuttiComm_t comm, int rank) : state_(state), comm_(comm), rank_(rank), data_(kCount) {}

  void enter() {
    const tuttiResult_t met = tuttiBarrier(comm_, nullptr);
    if (state_ == State::kAborted) return (void)tuttiCommAbort(comm_);  // the other's abort may have ended the barrier
    ASSERT_EQ(met, tuttiSuccess) << last_error();
    if (state_ == State::kSplit) {
      ASSERT_EQ(tuttiCommSplit(comm_, 0, rank_, &part_, nullptr), tuttiSuccess) << last_error();
    }
    if (state_ == State::kStream && rank_ == 1) {  // the other rank is not there yet
      ASSERT_EQ(tuttiStreamCreate(&stream_), tuttiSuccess);
      ASSERT_EQ(add(comm_, &data_, stream_), tuttiSuccess) << last_error();
    }
    if (state_ == State::kGroup && rank_ == 1) {
      ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
      ASSERT_EQ(add(comm_, &data_), tuttiSuccess) << last_error();
    }
    if (state_ == State::kDestroyed) {
      ASSERT_EQ(tuttiCommDestroy(comm_), tuttiSuccess) << last_error();
    }
  }

  void go_on() {
    if (!has_communicator(state_)) return go_on_alone();
    if (stream_ != nullptr) {
      EXPECT_EQ(tuttiStreamSynchronize(stream_), tuttiSuccess) << last_error();
      EXPECT_EQ(tuttiStreamDestroy(stream_), tuttiSuccess) << last_error();
    } else if (state_ == State::kGroup && rank_ == 1) {
      EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess) << last_error();
    } else {
      EXPECT_EQ(add(newest(), &data_), tuttiSuccess) << last_error();
    }
    EXPECT_TRUE(is_sum(data_));
    tuttiComm_t fresh = nullptr;
    EXPECT_EQ(tuttiCommSplit(comm_, 0, rank_, &fresh, nullptr), tuttiSuccess) << last_error();
    EXPECT_EQ(add(fresh, &data_), tuttiSuccess) << last_error();
    EXPECT_TRUE(is_sum(data_));
    for (const tuttiComm_t comm : {fresh, part_, comm_})
      if (comm != nullptr) {
        EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << last_error();
      }
  }

  /// The other rank's process ends.
  void expect_failure(const char* word) {
    if (!has_communicator(state_)) return;
    Yardstick yardstick;
    tuttiResult_t result = tuttiSuccess;
    std::chrono::duration<double> took{};
    while (result == tuttiSuccess) {
      yardstick.begin();
      const auto begin = std::chrono::steady_clock::now();
      result = add(newest(), &data_);
      took = std::chrono::steady_clock::now() - begin;
    }
    EXPECT_EQ(result, tuttiRemoteError);
    EXPECT_TRUE(contains(last_error(newest()), "rank 1 ")) << last_error(newest());
    EXPECT_TRUE(contains(last_error(newest()), word)) << last_error(newest());
    EXPECT_LT(took.count(), yardstick.limit(std::chrono::seconds(1)).count());
    for (const tuttiComm_t comm : {part_, comm_})
      if (comm != nullptr) (void)tuttiCommAbort(comm);
  }

  tuttiComm_t newest() const { return part_ != nullptr ? part_ : comm_; }

  /// In a forked child, which ends: 0 if each call is answered as it should be.
  int call_as_child() {
    if (!has_communicator(state_)) return go_on_alone(), ::testing::Test::HasFailure() ? 1 : 0;
    tuttiComm_t fresh = nullptr;
    tuttiUniqueId id;
    const bool all_refused =
        add(newest(), &data_) == tuttiInvalidUsage && tuttiCommInitAll(&fresh, 1, nullptr) == tuttiInvalidUsage &&
        tuttiCommSplit(newest(), 0, 0, &fresh, nullptr) == tuttiInvalidUsage &&
        tuttiGetUniqueId(&id) == tuttiInvalidUsage && tuttiCommDestroy(newest()) == tuttiInvalidUsage;
    return all_refused ? 0 : 1;
  }

 private:
  /// Where the process has no communicator any more, it can make one.
  static void go_on_alone() {
    tuttiComm_t comm = nullptr;
    ASSERT_EQ(tuttiCommInitAll(&comm, 1, nullptr), tuttiSuccess) << last_error();
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess) << last_error();
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << last_error();
  }

  const State state_;
  const tuttiComm_t comm_;
  const int rank_;
  std::vector<int> data_;
  tuttiComm_t part_ = nullptr;
  tuttiStream_t stream_ = nullptr;
};

/// Destroyed when the process exits, after the library's own end: it was made before the library was used.
struct Holder {
  tuttiComm_t comm = nullptr;
  ~Holder() {
    if (comm == nullptr) return;
    (void)tuttiGroupStart();
    (void)tuttiBarrier(comm, nullptr);
    (void)tuttiGroupEnd();
    (void)tuttiCommDestroy(comm);
    (void)tuttiGetLastError(nullptr);
  }
};
Holder& holder() {
  static Holder instance;
  return instance;
}

/// A handler that runs every millisecond, on whatever thread of the program takes the signal, and interrupts its calls.
class SignalStorm {
 public:
  explicit SignalStorm(bool blows) : blows_(blows) {
    if (!blows) return;
    struct sigaction action {};
    action.sa_handler = [](int) { count_.fetch_add(1); };
    ::sigaction(SIGALRM, &action, nullptr);
    set_timer(1000);
    await([] { return count_.load() > 0; }, "a signal");  // what follows may take less than a millisecond
  }
  ~SignalStorm() {
    if (blows_) set_timer(0);
  }
  SignalStorm(const SignalStorm&) = delete;
  SignalStorm& operator=(const SignalStorm&) = delete;

 private:
  static void set_timer(int microseconds) {
    const itimerval timer{{0, microseconds}, {0, microseconds}};
    ::setitimer(ITIMER_REAL, &timer, nullptr);
  }
  static inline std::atomic<int> count_{0};
  const bool blows_;
};

/// The exit of a forked child. It lacks its parent's threads, whose memory the leak sanitizer would call lost.
[[noreturn]] void exit_child(int code) {
  if (kAddressSanitized) ::_exit(code);
  std::exit(code);
}

void happen(Event event, Rank* rank, int descriptors) {
  switch (event) {
    case Event::kFork: {
      const pid_t child = ::fork();
      if (child == 0) exit_child(rank->call_as_child());
      EXPECT_EQ(await_end(child), 0);
      return;
    }
    case Event::kStart:
      EXPECT_EQ(inherited_descriptors(), descriptors);
      return;
    case Event::kSignals:
      return;  // from then on
    case Event::kUser:
      EXPECT_EQ(::setresuid(65534, 65534, 65534), 0);
      return;
    case Event::kExitDestroys:
      holder().comm = rank->newest();
      std::exit(0);
    case Event::kExit:
      std::exit(0);
    case Event::kQuit:
      ::_exit(0);
    case Event::kTerminate:
      ::raise(SIGTERM);
      return;
    case Event::kExecute:
      ::execl("/bin/true", "true", nullptr);
      ::_exit(127);
  }
}

class Events : public ::testing::TestWithParam<std::tuple<NamedState, NamedEvent>> {};

TEST_P(Events, HaveTheirOutcome) {
  const auto& [state, event] = GetParam();
  if (event.event == Event::kUser && ::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  if (event.event == Event::kFork && kThreadSanitized)
    GTEST_SKIP() << "it does not support threads in a child of a process with threads";  // such as the log's
  if (event.event == Event::kFork && kAddressSanitized)
    GTEST_SKIP() << "another thread may hold a lock of the sanitizer at the fork, and the child waits for it";
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting no_file("TUTTI_LOG_FILE", "/dev/null");
  // A rank of another user is not let near this one's memory: what is made from then on goes over TCP.
  const bool any_way = event.event == Event::kUser && state.transport == std::string("shm");
  const ScopedSetting transport("TUTTI_TRANSPORT", any_way ? "auto" : state.transport);
  const ScopedSetting tls("TUTTI_TLS", state.tls);
  int descriptors = 0;
  Processes processes(
      2,
      [&, state = state, event = event](tuttiComm_t comm, int number, Shared& shared) {
        Rank rank(state.state, comm, number);
        rank.enter();
        const SignalStorm storm(number == 1 && event.event == Event::kSignals);
        if (number == 1) {
          happen(event.event, &rank, descriptors);
          shared.step[1] = 1;
          rank.go_on();
        } else if (event.ends) {
          rank.expect_failure(event.word);
        } else {
          shared.wait_for_step(1, 1);
          rank.go_on();
        }
      },
      [&](int rank) {
        (void)holder();
        if (rank == 1) descriptors = inherited_descriptors();
      });
  EXPECT_EQ(processes.wait(0), 0);
  EXPECT_EQ(processes.wait(1), event.event == Event::kTerminate ? SIGTERM : 0);
}

INSTANTIATE_TEST_SUITE_P(
    Of, Events,
    ::testing::Combine(::testing::Values(NamedState{"joined_shm", State::kJoined, "shm", "off"},
                                         NamedState{"joined_tcp", State::kJoined, "tcp", "off"},
                                         NamedState{"joined_tls", State::kJoined, "tcp", "on"},
                                         NamedState{"split", State::kSplit, "shm", "off"},
                                         NamedState{"stream", State::kStream, "shm", "off"},
                                         NamedState{"stream_tls", State::kStream, "tcp", "on"},
                                         NamedState{"group", State::kGroup, "shm", "off"},
                                         NamedState{"destroyed", State::kDestroyed, "shm", "off"},
                                         NamedState{"aborted", State::kAborted, "shm", "off"}),
                       ::testing::Values(NamedEvent{"fork", Event::kFork, false, ""},
                                         NamedEvent{"start", Event::kStart, false, ""},
                                         NamedEvent{"signals", Event::kSignals, false, ""},
                                         NamedEvent{"user", Event::kUser, false, ""},
                                         NamedEvent{"exit", Event::kExit, true, "left"},
                                         NamedEvent{"exit_destroys", Event::kExitDestroys, true, "left"},
                                         NamedEvent{"quit", Event::kQuit, true, "died"},
                                         NamedEvent{"terminate", Event::kTerminate, true, "died"},
                                         NamedEvent{"execute", Event::kExecute, true, "died"})),
    [](const auto& info) { return std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param).name; });

/// The end of a process that has used the library a little, or not at all.
template <class Body>
int end_of_child(const Body& body) {
  return end_of_process(body, ProcessEnd::kWithExitHandlers);
}

void join_and_add(const tuttiUniqueId& id, int rank) {
  tuttiComm_t comm = nullptr;
  ASSERT_EQ(tuttiCommInitRank(&comm, 2, id, rank), tuttiSuccess) << last_error();
  std::vector<int> data(kCount);
  EXPECT_EQ(add(comm, &data), tuttiSuccess) << last_error();
  EXPECT_TRUE(is_sum(data));
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << last_error();
}

TEST(Ids, WhoHasOnlyMadeAnIdMayForkRanks) {
  if (kThreadSanitized) GTEST_SKIP() << "it does not support threads in a child of a process with threads";
  const ScopedSetting quiet("TUTTI_LOG", "error");
  EXPECT_EQ(end_of_child([] {
              tuttiUniqueId id;
              ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess) << last_error();
              const pid_t child = ::fork();
              join_and_add(id, child == 0 ? 1 : 0);
              if (child == 0) exit_child(::testing::Test::HasFailure() ? 1 : 0);
              EXPECT_EQ(await_end(child), 0);
            }),
            0);
}

TEST(Ids, WhoHasMadeAnIdAndExitsLeavesNobodyWaiting) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  EXPECT_EQ(end_of_child([] {
              tuttiUniqueId id;
              int way[2];
              ASSERT_EQ(::pipe(way), 0);
              const pid_t child = ::fork();
              if (child == 0) {
                const bool told = tuttiGetUniqueId(&id) == tuttiSuccess && ::write(way[1], &id, sizeof id) == sizeof id;
                std::exit(told ? 0 : 1);
              }
              ASSERT_EQ(::read(way[0], &id, sizeof id), static_cast<ssize_t>(sizeof id));
              EXPECT_EQ(await_end(child), 0);
              tuttiComm_t comm = nullptr;
              EXPECT_EQ(tuttiCommInitRank(&comm, 2, id, 1), tuttiRemoteError);
              EXPECT_TRUE(contains(last_error(), "nobody serves this unique id")) << last_error();
            }),
            0);
}

}  // namespace
}  // namespace tutti::test
