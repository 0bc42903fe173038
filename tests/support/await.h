// Waits of tests: each has an end that only a hang reaches, and says what it waited for.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "support/patience.h"
#include "support/sanitized.h"

namespace tutti::test {

/// Asks at first more often, then every millisecond; whether it came true in time. For who tells of the failure in its
/// own way.
template <class Condition>
[[nodiscard]] bool comes_true(const Condition& condition, std::chrono::nanoseconds limit = kPatience) {
  std::chrono::microseconds pause{20};
  for (const auto end = std::chrono::steady_clock::now() + limit; std::chrono::steady_clock::now() < end;) {
    if (condition()) return true;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(1000));
  }
  return condition();
}

/// As comes_true(); a failure of the test that says `what` did not happen, where it does not. Any thread or process.
template <class Condition>
bool await(const Condition& condition, const std::string& what, std::chrono::nanoseconds limit = kPatience) {
  if (comes_true(condition, limit)) return true;
  ADD_FAILURE() << "waited in vain for " << what;
  return false;
}

/// Threads meet here, as often as they like: each goes on when all `count` have come, or the patience has passed, as it
/// has where one of them failed on its way.
class Meeting {
 public:
  explicit Meeting(int count) : count_(count) {}
  void arrive_and_wait() {
    const int last = arrived_.fetch_add(1) / count_ * count_ + count_;
    await([&] { return arrived_.load() >= last; }, "the other threads");
  }

 private:
  const int count_;
  std::atomic<int> arrived_{0};
};

/// For forked children, whose wait must not end without success: ends the process then.
template <class Condition>
void await_or_exit(const Condition& condition, const std::string& what) {
  if (comes_true(condition)) return;
  std::fprintf(stderr, "process %d waited in vain for %s\n", static_cast<int>(::getpid()), what.c_str());
  ::_exit(6);
}

/// Until a signal ends this process; not for ever, should nobody send one.
[[noreturn]] inline void await_kill() {
  await_or_exit([] { return false; }, "the signal that ends it");
  ::_exit(6);
}

/// The wait status of a child that ends by itself; -1: it does not within six times the patience, for it may wait for
/// somebody itself, and have much to do where others have the cores. It is killed then.
inline int await_end(pid_t child) {
  if (child <= 0) return -1;  // it was waited for already
  int status = -1;
  if (comes_true([&] { return ::waitpid(child, &status, WNOHANG) == child; }, 6 * kPatience)) return status;
  ADD_FAILURE() << "process " << child << " does not end";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return -1;
}

/// Ends a child, stopped or not.
inline void end_child(pid_t child) {
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

/// The state of a thread as /proc has it, such as 'S' for asleep or 'T' for stopped; 'X' for one that is gone.
inline char state_of(const std::filesystem::path& thread) {
  std::ifstream file(thread / "stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  return name_end == std::string::npos || text.size() < name_end + 3 ? 'X' : text[name_end + 2];
}

/// Whether a thread of this process sleeps, as a long wait does, in twenty looks one after the other.
inline bool is_asleep(pid_t thread) {
  for (int look = 0; look < 20; ++look) {
    if (state_of("/proc/self/task/" + std::to_string(thread)) != 'S') return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// Before a fork, where the child is to have threads: another thread that is not asleep may hold a lock of a
/// sanitizer's allocator, which nobody would give back in the child.
inline bool await_others_asleep() {
  return await(
      [] {
        for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
          const auto number = static_cast<pid_t>(std::stol(thread.path().filename()));
          if (number != ::gettid() && !is_asleep(number)) return false;
        }
        return true;
      },
      "the other threads' sleep");
}

/// Stops a process, and comes back when it is, or when it has ended: until one of its threads has taken the signal, all
/// of them go on.
inline void stop_process(pid_t process) {
  ::kill(process, SIGSTOP);
  std::string states;
  const auto is_stopped = [&] {
    states.clear();
    std::error_code gone;
    for (const auto& thread : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task", gone))
      states += state_of(thread.path());
    return states.find_first_not_of("TXZ") == std::string::npos;
  };
  if (!await(is_stopped, "the stop of process " + std::to_string(process)))
    ADD_FAILURE() << "the states of its threads: " << states;
}

inline std::size_t count_threads() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ++count;
  return count;
}
/// Those of a sanitizer.
inline const std::size_t kThreadsAtStart = count_threads();

inline std::string names_of_threads() {
  std::string names, name;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task"))
    if (std::ifstream file(thread.path() / "comm"); std::getline(file, name)) names += " " + name;
  return names;
}

/// Before a fork: a child lacks its parent's other threads, such as those of the library that are about to end, and
/// the thread sanitizer wants none. Threads that an earlier case has left for good are named before the case's own time
/// is over.
inline bool await_no_other_thread() {
  // The sanitizer's own thread begins with the first of the program's, or after a fork.
  const std::size_t own = kThreadsAtStart + (kThreadSanitized ? 1 : 0);
  if (comes_true([&] { return count_threads() <= own; }, kPatience / 3)) return true;
  ADD_FAILURE() << "an earlier case has left threads:" << names_of_threads();
  return false;
}

}  // namespace tutti::test
