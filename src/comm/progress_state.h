// What other threads may know of the thread that runs the calls on streams.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/status.h"

namespace tutti {

/// The state of the process's one progress thread. Any thread may ask.
class ProgressState {
 public:
  /// The caller is that thread: it runs a callback.
  static bool is_here() { return here_; }
  /// Not ok: the caller is that thread, and so cannot wait for what it runs.
  static Status refuse_wait();
  /// Grows while that thread goes its rounds, at least ten times a second; it does not where a callback holds it up.
  static std::uint64_t rounds() { return rounds_.load(std::memory_order_relaxed); }

  /// By that thread, once, before its first round.
  static void enter() { here_ = true; }
  /// By that thread, in each round.
  static void count_round() { rounds_.fetch_add(1, std::memory_order_relaxed); }

 private:
  static thread_local bool here_;
  static inline std::atomic<std::uint64_t> rounds_{0};  // relaxed: it says that there was progress, and orders nothing
};

}  // namespace tutti
