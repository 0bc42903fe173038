// The waiting ladder: spin, pause, yield, sleep. It only says which rung is next; the caller sleeps, because how
// depends on what it waits for.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "core/clock.h"

namespace tutti {

/// Tells the core that this is a spin: frees execution resources for a sibling thread and saves power.
inline void cpu_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

/// How long each rung lasts. Chosen once per communicator, by how many ranks share a core of its host.
struct LadderPolicy {
  bool has_cores = true;                          ///< one per rank, and what they wait for comes through memory
  std::uint32_t bare_spins = 200;                 ///< polls without a pause
  std::chrono::nanoseconds spin_for{20'000};      ///< polls with a pause
  std::chrono::nanoseconds yield_for{1'000'000};  ///< polls with sched_yield in between
  int ranks_per_core = 1;                         ///< rounded up

  /// With a core for every rank a short spin nearly always ends the wait, and a yield only adds latency. With more
  /// ranks than cores the awaited rank may need this very core: hand it over at once, and keep yielding longer before
  /// sleeping, because a futex wake costs ten times a yield. A poll of a network costs system calls, beside which a
  /// yield is cheap: ranks that share a core yield between any two. And what comes from there comes through the
  /// operating system, perhaps from a rank that needs this core: nobody knows who else lives on this host.
  static LadderPolicy choose(int ranks_per_core, std::int64_t spin_microseconds, bool network = false) {
    LadderPolicy policy;
    policy.ranks_per_core = ranks_per_core;
    if (ranks_per_core > 1 || network) {
      policy.has_cores = false;
      policy.bare_spins = network && ranks_per_core > 1 ? 0 : 8;
      policy.spin_for = std::chrono::nanoseconds{0};
      policy.yield_for = std::chrono::nanoseconds{4'000'000};
    }
    if (spin_microseconds >= 0) policy.spin_for = std::chrono::microseconds{spin_microseconds};
    return policy;
  }
};

/// Remembers slow yields from one wait to the next. If a yield took longer than all ranks on the core need for a turn
/// each, another program keeps the core for its whole slice, or a rank has much to do. Sleeping is then better, because
/// the scheduler favours threads that are woken, and is soon given up, because it makes waits for other ranks several
/// times longer. If another slow yield follows soon, after few fast ones, it is remembered for twice as long, because
/// another program takes slice after slice. A rank that computes now and then leaves time, or many fast yields, between
/// its slices. Not thread-safe.
class CoreContention {
 public:
  static constexpr std::chrono::nanoseconds kSlowYield{2'000'000};  ///< beside the turns of the other ranks
  static constexpr std::chrono::nanoseconds kTurn{
      60'000};  ///< of one rank in a small call, in which it may wake others
  static constexpr std::chrono::nanoseconds kFirstMemory{6'000'000};
  static constexpr std::chrono::nanoseconds kLongestMemory{200'000'000};
  static constexpr std::chrono::nanoseconds kSoon{20'000'000};  ///< after the end of the memory
  static constexpr int kFew = 64;                               ///< fast yields

  explicit CoreContention(int ranks_per_core) : slow_(kSlowYield + (ranks_per_core - 1) * kTurn) {}

  void yielded(Clock::time_point begin, Clock::time_point end) {
    if (end - begin < slow_) {
      if (fast_ < kFew) ++fast_;
      return;
    }
    const bool comes_again = begin - until_ < kSoon && fast_ < kFew;
    memory_ = comes_again ? std::min(2 * memory_, kLongestMemory) : kFirstMemory;
    until_ = end + memory_;
    fast_ = 0;
  }
  bool is_expected(Clock::time_point now) const { return now < until_; }

 private:
  const std::chrono::nanoseconds slow_;
  std::chrono::nanoseconds memory_ = kFirstMemory;
  Clock::time_point until_{};
  int fast_ = kFew;  // yields since the slow one
};

/// The time between one's own message and the first look for the peer's. A look that comes too early takes the peer's
/// line from it just before it writes there, and costs both a crossing of the line more; and it makes this rank late
/// for the next call, where the other one then looks too early. One pause is right where the cores share a cache, four
/// where they do not; what is right shows in how often one has to look (docs/design/waiting.md). A call that begins
/// with a look has a delay of its own, which may be none: the message may be there already, because the root of a
/// broadcast runs ahead. Not thread-safe.
class PollDelay {
 public:
  static constexpr std::uint32_t kFewest = 1;  ///< pauses after one's own message

  /// `has_cores`: as in LadderPolicy. Where ranks share a core, every pause keeps another one waiting.
  explicit PollDelay(bool has_cores, std::uint32_t fewest = kFewest)
      : has_cores_(has_cores), fewest_(fewest), pauses_(has_cores ? kFewest : 0) {}

  void pass() const {
    for (std::uint32_t i = 0; i < pauses_; ++i) cpu_pause();
  }
  void pass_between() const {
    if (has_cores_) cpu_pause();
  }
  std::uint32_t pauses() const { return pauses_; }
  /// After a wait in which `misses` looks found nothing.
  void learn(std::uint32_t misses) {
    if (!has_cores_) return;
    if (misses == 0 && pauses_ > fewest_) --pauses_;
    if (misses > (pauses_ == 0 ? 0 : kMany) && pauses_ < kMost) ++pauses_;
  }

 private:
  static constexpr std::uint32_t kMost = 4;
  static constexpr std::uint32_t kMany = 4;
  const bool has_cores_;
  const std::uint32_t fewest_;
  std::uint32_t pauses_;
};

/// One wait's place on the ladder. Not thread-safe.
class Ladder {
 public:
  enum class Rung : std::uint8_t { kSpin, kYield, kSleep };

  explicit Ladder(const LadderPolicy& policy) : policy_(policy) {}
  /// `contention`: of the one who waits, for all its waits.
  Ladder(const LadderPolicy& policy, CoreContention& contention) : policy_(policy), contention_(&contention) {}

  /// Progress was made: back to the first rung.
  void reset() { polls_ = 0; }
  /// Passes the time that this rung takes (except kSleep: the caller sleeps) and says which one it was.
  Rung climb() {
    if (polls_ < policy_.bare_spins) {
      ++polls_;
      return Rung::kSpin;
    }
    return climb_slowly();
  }
  /// Time from the end of the bare spins to the last look at the clock; 0 before.
  std::chrono::nanoseconds waited() const {
    return polls_ <= policy_.bare_spins ? std::chrono::nanoseconds{0} : now_ - since_;
  }

 private:
  Rung climb_slowly() {
    if (polls_++ == policy_.bare_spins) since_ = now_ = Clock::now();
    if (now_ - since_ < policy_.spin_for) {
      // The clock is read once in 16 spins: it costs as much as the pause.
      if ((polls_ & 15) == 0) now_ = Clock::now();
      cpu_pause();
      return Rung::kSpin;
    }
    const bool yields_no_more = now_ - since_ >= policy_.spin_for + policy_.yield_for;
    if (yields_no_more || (contention_ != nullptr && contention_->is_expected(now_))) {
      now_ = Clock::now();
      return Rung::kSleep;
    }
    // One look at the clock a yield: where ranks share a core, a call consists of yields.
    const Clock::time_point before = now_;
    sched_yield();
    now_ = Clock::now();
    if (contention_ != nullptr) contention_->yielded(before, now_);
    return Rung::kYield;
  }

  LadderPolicy policy_;
  CoreContention* contention_ = nullptr;
  std::uint32_t polls_ = 0;
  Clock::time_point since_{};
  Clock::time_point now_{};
};

}  // namespace tutti
