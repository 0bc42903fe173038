// One wait for all that nothing announces to the thread that waits for it: it looks again and again, and every wait has
// somebody who ends it if what is waited for does not come.
#pragma once

#include <chrono>
#include <thread>

#include "core/clock.h"
#include "core/ladder.h"
#include "core/status.h"

namespace tutti {

/// What passes between two looks.
struct WaitPace {
  std::chrono::nanoseconds nap;  ///< the sleep on the last rung
  LadderPolicy ladder{};         ///< the rungs before it

  /// Sleeps between any two looks: what is waited for takes longer than a sleep, and this core may be of use to it.
  static WaitPace naps(std::chrono::nanoseconds nap) { return yields(std::chrono::nanoseconds{0}, nap); }
  /// Yields between two looks for a while, and sleeps then.
  static WaitPace yields(std::chrono::nanoseconds how_long, std::chrono::nanoseconds nap) {
    WaitPace pace{nap};
    pace.ladder.bare_spins = 0;
    pace.ladder.spin_for = std::chrono::nanoseconds{0};
    pace.ladder.yield_for = how_long;
    return pace;
  }
};

/// Looks until ready() is true. After each look that found nothing monitor(sleeps) says whether the wait is still worth
/// it; if it is not ok, the wait ends with that. `sleeps` is true if a nap follows, so that there is time for a longer
/// check.
template <class Ready, class Monitor>
[[nodiscard]] Status wait_until(const Ready& ready, const Monitor& monitor, const WaitPace& pace) {
  Ladder ladder(pace.ladder);
  while (!ready()) {
    const bool sleeps = ladder.climb() == Ladder::Rung::kSleep;
    TUTTI_TRY(monitor(sleeps));
    if (sleeps) std::this_thread::sleep_for(pace.nap);
  }
  return {};
}

/// Like the other wait_until(), but a deadline ends the wait. False: it has passed.
template <class Ready>
[[nodiscard]] bool wait_until(const Ready& ready, Deadline deadline, const WaitPace& pace) {
  Ladder ladder(pace.ladder);
  while (!ready()) {
    if (deadline.passed()) return false;
    if (ladder.climb() == Ladder::Rung::kSleep) std::this_thread::sleep_for(pace.nap);
  }
  return true;
}

}  // namespace tutti
