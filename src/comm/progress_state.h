// What other threads may know of the progress thread, which runs the calls on streams.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/status.h"

namespace tutti {

/// The state of the process's one progress thread. Any thread may ask.
class ProgressState {
 public:
  /// Whether the caller is that thread, in a callback.
  static bool is_here() { return here_; }
  /// Fails if the caller is that thread, because it cannot wait for what it runs.
  static Status refuse_wait();
  /// Grows while that thread goes its rounds, at least ten times a second. It does not grow while a callback holds the
  /// thread up.
  static std::uint64_t rounds() { return rounds_.load(std::memory_order_relaxed); }

  /// That thread calls it once, before its first round.
  static void enter() { here_ = true; }
  /// That thread calls it in each round.
  static void count_round() { rounds_.fetch_add(1, std::memory_order_relaxed); }

 private:
  static thread_local bool here_;
  static inline std::atomic<std::uint64_t> rounds_{0};  // relaxed: it shows that there was progress, and orders nothing
};

}  // namespace tutti
