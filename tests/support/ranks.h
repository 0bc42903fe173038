// Runs a function as n ranks of one communicator: as threads of this process, or as forked processes.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <latch>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/membership/hub.h"
#include "support/await.h"
#include "support/sanitized.h"

namespace tutti::test {

/// Sets an environment variable for a scope. Only while no other thread runs.
class ScopedSetting {
 public:
  ScopedSetting(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, was_set_ = true;
    ::setenv(name, value.c_str(), 1);
  }
  ~ScopedSetting() { was_set_ ? ::setenv(name_, old_.c_str(), 1) : ::unsetenv(name_); }
  ScopedSetting(const ScopedSetting&) = delete;
  ScopedSetting& operator=(const ScopedSetting&) = delete;

 private:
  const char* name_;
  std::string old_;
  bool was_set_ = false;
};

/// What a rank does; it owns the communicator from then on, and destroys or aborts it.
using RankBody = std::function<void(tuttiComm_t comm, int rank)>;

inline void run_threads(int ranks, const RankBody& body, const tuttiConfig_t* config = nullptr) {
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess) << tuttiGetLastError(nullptr);
  // What a body does to the communicator would fail the join of a rank that has not quite left it.
  std::latch joined(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      tuttiComm_t comm = nullptr;
      EXPECT_EQ(tuttiCommInitRankConfig(&comm, ranks, id, rank, config), tuttiSuccess) << tuttiGetLastError(nullptr);
      joined.arrive_and_wait();
      if (comm != nullptr) body(comm, rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Memory that the test and its forked ranks share.
struct Shared {
  static constexpr int kMaxRanks = 16;
  std::atomic<bool> id_ready;
  tuttiUniqueId id;
  std::atomic<int> step[kMaxRanks];    ///< for the test's own choreography
  std::atomic<int> result[kMaxRanks];  ///< a tuttiResult_t, or -1
  std::atomic<long> microseconds[kMaxRanks];
  std::atomic<long> second_here[kMaxRanks];  ///< microseconds that a promise of one may take, by the rank's yardstick
  char text[kMaxRanks][600];

  void report(int rank, tuttiResult_t code, const char* message) {
    std::strncpy(text[rank], message, sizeof text[rank] - 1);
    result[rank].store(code);
  }
  /// Not for ever: a rank whose join has failed takes no step.
  void wait_for_step(int rank, int value) const {
    await([&] { return step[rank].load() >= value || result[rank].load() > 0; },
          "step " + std::to_string(value) + " of rank " + std::to_string(rank));
    EXPECT_GE(step[rank].load(), value) << "rank " << rank << " does not get there: " << text[rank];
  }
};

using ProcessBody = std::function<void(tuttiComm_t comm, int rank, Shared& shared)>;

/// Ranks as processes. They are forked from here, where no communicator may be alive. A rank ends with exit code 0 when
/// its body returned and no expectation failed in it.
class Processes {
 public:
  /// `before`: called in each process before it joins.
  Processes(int ranks, const ProcessBody& body, const std::function<void(int rank)>& before = {})
      : pids_(static_cast<std::size_t>(ranks)) {
    await_no_other_thread();
    void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared_ = new (memory) Shared{};
    for (auto& result : shared_->result) result.store(-1);
    for (int rank = 0; rank < ranks; ++rank) {
      pids_[static_cast<std::size_t>(rank)] = ::fork();
      if (pids_[static_cast<std::size_t>(rank)] != 0) continue;
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (before) before(rank);
      run(ranks, rank, body);
    }
  }
  ~Processes() {
    for (const pid_t pid : pids_) {
      if (pid > 0) end_child(pid);
    }
    ::munmap(shared_, sizeof(Shared));
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  Shared& shared() { return *shared_; }
  pid_t pid(int rank) const { return pids_[static_cast<std::size_t>(rank)]; }
  void signal(int rank, int number) { ::kill(pid(rank), number); }
  /// The wait status of a rank that ends by itself; -1: it does not, and is killed.
  int wait(int rank) { return await_end(std::exchange(pids_[static_cast<std::size_t>(rank)], -1)); }

 private:
  [[noreturn]] void run(int ranks, int rank, const ProcessBody& body) {
    const bool had_failed = ::testing::Test::HasFailure();  // the parent, in an earlier round
    if (rank == 0) {
      if (tuttiGetUniqueId(&shared_->id) != tuttiSuccess) ::_exit(3);
      shared_->id_ready.store(true);
    }
    await_or_exit([this] { return shared_->id_ready.load(); }, "the id of rank 0");
    tuttiComm_t comm = nullptr;
    if (tuttiCommInitRank(&comm, ranks, shared_->id, rank) != tuttiSuccess) {
      shared_->report(rank, tuttiSystemError, tuttiGetLastError(nullptr));
      ::_exit(4);
    }
    body(comm, rank, *shared_);
    // A service thread that has ended, but that nobody has joined yet, is a leak to the thread sanitizer.
    if (kThreadSanitized) (void)wait_for_no_hub(std::chrono::seconds(1));
    ::_exit(::testing::Test::HasFailure() && !had_failed ? 5 : 0);
  }

  Shared* shared_;
  std::vector<pid_t> pids_;
};

}  // namespace tutti::test
