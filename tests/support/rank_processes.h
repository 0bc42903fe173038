// Processes that a test forks, such as ranks: they end with it, and every wait for one of them has an end.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <utility>
#include <vector>

#include "support/await.h"

namespace tutti::test {

enum class ProcessEnd {
  kAtOnce,
  kWithExitHandlers,  ///< a leak sanitizer looks for leaks there
};

/// They are forked from the test's own process, which has no other thread: a child would have the locks of such a
/// thread without the thread. What they share with the test is SharedMemory.
class RankProcesses {
 public:
  /// `settle`: ends what may have threads here.
  explicit RankProcesses(const std::function<void()>& settle = {}) {
    if (settle) settle();
    await_no_other_thread();
  }
  /// Ends those that are left.
  ~RankProcesses() {
    for (const pid_t pid : pids_) {
      if (pid > 0) end_child(pid);
    }
  }
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  /// One more. It ends when `main` returns, with 0 if no expectation has failed in it.
  template <class Main>
  void start(const Main& main, ProcessEnd end = ProcessEnd::kAtOnce) {
    const bool had_failed = ::testing::Test::HasFailure();  // this process, in an earlier round
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      main();
      const int code = ::testing::Test::HasFailure() && !had_failed ? kFailed : 0;
      if (end == ProcessEnd::kWithExitHandlers) std::exit(code);
      std::fflush(stdout);  // what failed is told also where that is no terminal
      ::_exit(code);
    }
    EXPECT_GT(pid, 0) << "a process cannot be forked";
    pids_.push_back(pid);
  }

  int count() const { return static_cast<int>(pids_.size()); }
  pid_t pid(int index) const { return pids_[static_cast<std::size_t>(index)]; }
  void signal(int index, int number) const {
    if (pid(index) > 0) ::kill(pid(index), number);
  }
  /// The wait status of one that ends by itself; -1: it does not, and is killed, or it was waited for already.
  int wait(int index) { return await_end(std::exchange(pids_[static_cast<std::size_t>(index)], -1)); }
  /// All end by themselves, and well.
  void expect_success() {
    for (int index = 0; index < count(); ++index) EXPECT_EQ(wait(index), 0) << "process " << index;
  }

 private:
  static constexpr int kFailed = 5;
  std::vector<pid_t> pids_;
};

/// Runs `main` in a process of its own; the wait status, as of RankProcesses::wait().
template <class Main>
int end_of_process(const Main& main, ProcessEnd end = ProcessEnd::kAtOnce) {
  RankProcesses process;
  process.start(main, end);
  return process.wait(0);
}

}  // namespace tutti::test
