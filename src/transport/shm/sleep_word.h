// SleepWord: the word in shared memory that a rank sleeps on and its peers look at. The protocol and its proof are in
// docs/design/links.md, "Sleeping".
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tutti {

/// Zero-initialised, shared between processes. 0: the owner is awake; 1: it sleeps or is about to.
class SleepWord {
 public:
  /// Owner: from now on peers wake it. Between this and the look at the links the owner needs a ProcessBarrier, because
  /// wake_if_announced() has no fence; without it a wake-up may be missed, so the sleep must be short.
  void announce() { word_.exchange(1, std::memory_order_acq_rel); }  // pairs with the exchange in wake()
  /// Owner: it does not sleep after all.
  void cancel() { word_.store(0, std::memory_order_relaxed); }
  /// Owner: sleeps until woken, at most `slice`. May return early. Returns at once if woken since announce(). True if a
  /// peer woke it.
  bool sleep(std::chrono::nanoseconds slice);

  /// Any thread of any process: wakes the owner, whether or not it sleeps. One system call if it announced itself.
  void wake();
  /// Peers, after a store that the owner may wait for: one load while the owner is awake.
  void wake_if_announced() {
    // The compiler keeps store and load in order; for the CPU the sleeper's ProcessBarrier does.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (word_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      wake();
  }

 private:
  std::atomic<std::uint32_t> word_;
};
static_assert(sizeof(SleepWord) == 4 && std::atomic<std::uint32_t>::is_always_lock_free);

/// A full memory barrier on every running thread of every registered process (membarrier, "global expedited"): the
/// expensive half of Dekker's protocol made asymmetric (as userspace RCU does), so that the frequent side needs none.
class ProcessBarrier {
 public:
  /// Makes this process one that barriers reach. False where Linux (or a sandbox, or an emulator) has none.
  static bool enroll();
  /// Runs the barrier. A few microseconds. Only after a successful enroll() in this process. False: it could not.
  static bool run();
};

}  // namespace tutti
