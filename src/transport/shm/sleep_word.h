// SleepWord: the word in shared memory that a rank sleeps on and its peers look at. The protocol and its proof are in
// docs/design/links.md, "Sleeping".
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "core/units.h"

namespace tutti {

/// Zero-initialised, shared between processes. 0: the owner is awake; else it sleeps or is about to, and the value says
/// whose stores it waits for.
class SleepWord {
 public:
  /// Owner: lets `only`, or all peers if that is kNoRank, wake it from now on. A rank that waits for messages of many
  /// peers needs one of them next, and each of the others would wake it for nothing. Between this and the look at the
  /// links the owner needs a ProcessBarrier, because wake_if_announced() has no fence; without one a wake-up may be
  /// missed, so the sleep must be short.
  void announce(Rank only) { word_.exchange(value_of(only), std::memory_order_acq_rel); }  // pairs with wake()
  /// Owner: takes the announcement back.
  void cancel() { word_.store(0, std::memory_order_relaxed); }
  /// Owner: sleeps until woken, at most `slice`. May return early. Returns at once if woken since announce(). True if a
  /// peer woke it.
  bool sleep(std::chrono::nanoseconds slice);

  /// Any thread of any process: wakes the owner, whether or not it sleeps. One system call if it announced itself.
  void wake();
  /// Peers: called by `from` after a store that the owner may wait for. Costs one load while the owner is awake.
  void wake_if_announced(Rank from) {
    // This fence makes the compiler keep store and load in order; the sleeper's ProcessBarrier makes the CPU do so.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    const std::uint32_t value = word_.load(std::memory_order_relaxed);
    if (value != 0 && (value == value_of(kNoRank) || value == value_of(from))) [[unlikely]]
      wake();
  }

 private:
  static_assert(kNoRank.value == -1);
  static std::uint32_t value_of(Rank rank) { return static_cast<std::uint32_t>(rank.value + 2); }

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
