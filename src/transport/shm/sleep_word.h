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
  /// Owner: lets peers wake it from now on. Between this and the look at the links the owner needs a ProcessBarrier,
  /// because wake_if_announced() has no fence; without one a wake-up may be missed, so the sleep must be short.
  void announce() { word_.exchange(1, std::memory_order_acq_rel); }  // pairs with the exchange in wake()
  /// Owner: takes the announcement back.
  void cancel() { word_.store(0, std::memory_order_relaxed); }
  /// Owner: sleeps until woken, at most `slice`. May return early. Returns at once if woken since announce(). True if a
  /// peer woke it.
  bool sleep(std::chrono::nanoseconds slice);

  /// Any thread of any process: wakes the owner, whether or not it sleeps. One system call if it announced itself.
  void wake();
  /// Peers: called after a store that the owner may wait for. Costs one load while the owner is awake.
  void wake_if_announced() {
    // This fence makes the compiler keep store and load in order; the sleeper's ProcessBarrier makes the CPU do so.
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
  /// Makes this process one that barriers reach. Returns false if Linux (or a sandbox, or an emulator) has none.
  static bool enroll();
  /// Runs the barrier, which takes a few microseconds. Only after a successful enroll() in this process. Returns false
  /// if that failed.
  static bool run();
};

}  // namespace tutti
