// What this machine takes for plain things while a test measures a promise: who is slowed down, is measured by less.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>

#include "support/await.h"

namespace tutti::test {

/// From its construction on a thread sleeps for a millisecond and wakes, again and again: the longest of these rounds
/// tells how long a thread that has something to do waited for a core. One in each process whose time is measured, so
/// that a process that was held up as a whole knows it.
class Yardstick {
 public:
  using Clock = std::chrono::steady_clock;

  Yardstick() : began_(Clock::now()), thread_([this] { run(); }) {}
  ~Yardstick() {
    stop_.store(true);
    thread_.join();
  }
  Yardstick(const Yardstick&) = delete;
  Yardstick& operator=(const Yardstick&) = delete;

  /// Forgets the rounds so far: what is measured begins now.
  void begin() {
    const std::lock_guard lock(mutex_);
    began_ = Clock::now();
    longest_ = {};
  }
  /// What is wrong with a promise that begins now: that the condition does not come true at all, or later than
  /// promised. Empty: nothing.
  template <class Condition>
  std::string miss(double promised, const Condition& condition) {
    begin();
    const Clock::time_point began = Clock::now();
    if (!comes_true(condition)) return "it does not come";
    return judge(promised, Clock::now() - began);
  }
  /// The same of what took so long since begin().
  std::string judge(double promised, std::chrono::duration<double> took) const {
    const double most = limit(std::chrono::duration<double>(promised)).count();
    if (took.count() <= most) return {};
    return "it took " + std::to_string(took.count()) + " s, and may take " + std::to_string(most) + " s here";
  }

  /// What a promise of `promised` may take here: longer by as much as the longest round was longer than on an idle
  /// machine.
  std::chrono::duration<double> limit(std::chrono::duration<double> promised) const {
    const std::lock_guard lock(mutex_);
    const Clock::duration longest = std::max(longest_, Clock::now() - began_);
    return promised * std::max(1.0, std::chrono::duration<double>(longest) / kIdleRound) * kSlowdown;
  }

 private:
  /// The longest of a second's rounds on an idle machine of two cores.
  static constexpr std::chrono::duration<double> kIdleRound{0.005};
  /// A sanitizer makes work, and not rounds, longer. On a machine of half the usual speed, beside other cases, an
  /// abort took up to twelve times the promise. What waits for a deadline instead takes hundreds of times as long.
  static constexpr double kSlowdown = kSanitized ? 20 : 1;

  void run() {
    while (!stop_.load()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const std::lock_guard lock(mutex_);
      const Clock::time_point now = Clock::now();
      longest_ = std::max(longest_, now - began_);
      began_ = now;
    }
  }

  mutable std::mutex mutex_;   // guards what follows
  Clock::time_point began_;    // of the present round
  Clock::duration longest_{};  // since begin()
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace tutti::test
