#include "executor/polled_run.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "core/clock.h"
#include "core/ladder.h"
#include "core/wait_until.h"

namespace tutti {

namespace {
/// How long until the monitor is asked again.
constexpr std::chrono::milliseconds kPause{1};
/// How long nothing happens before the thread sleeps between looks, and the part of the time since then that a sleep
/// takes at most. A system is late with the end of a sleep by some 60 us, so the call that ends is late by no more than
/// a few hundredths of its time.
constexpr std::chrono::milliseconds kAwake{4};
constexpr int kNapPart = 64;
}  // namespace

Status run_polled(Executor& executor, WaitMonitor& monitor, std::chrono::microseconds nap) {
  const WaitPace pace = WaitPace::yields(kAwake, nap);
  Ladder ladder(pace.ladder);
  std::uint64_t seen = executor.progress();
  auto next_check = Clock::now() + kPause;
  for (;;) {
    const Progress outcome = executor.advance();
    if (outcome == Progress::kDone) break;
    if (const std::uint64_t now = executor.progress(); std::exchange(seen, now) != now) ladder.reset();
    const bool sleeps = ladder.climb() == Ladder::Rung::kSleep;
    if (sleeps) executor.links().make_progress();
    if (const auto now = Clock::now(); outcome == Progress::kFailed || monitor.alarmed() || now >= next_check) {
      next_check = now + kPause;
      executor.links().board().post_awaited(executor.awaited());
      TUTTI_TRY(monitor.check(executor.awaited(), executor.progress()));
    }
    if (sleeps) std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pace.nap, ladder.waited() / kNapPart));
  }
  executor.links().board().post_awaited(kNoRank);
  return {};
}

}  // namespace tutti
