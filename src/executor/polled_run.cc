#include "executor/polled_run.h"

#include "core/clock.h"
#include "core/wait_until.h"

namespace tutti {

namespace {
/// How long a call is polled before its thread sleeps between looks, and how long until the monitor is asked again.
constexpr std::chrono::milliseconds kAwake{1};
}  // namespace

Status run_polled(Executor& executor, WaitMonitor& monitor, std::chrono::microseconds nap) {
  Progress outcome = Progress::kAgain;
  auto next_check = Clock::now() + kAwake;
  const auto has_ended = [&] {
    outcome = executor.advance();
    return outcome == Progress::kDone;
  };
  const auto is_worth_it = [&](bool sleeps) -> Status {
    if (sleeps) executor.links().make_progress();
    const auto now = Clock::now();
    if (outcome != Progress::kFailed && !monitor.alarmed() && now < next_check) return {};
    next_check = now + kAwake;
    executor.links().board().post_awaited(executor.awaited());
    return monitor.check(executor.awaited(), executor.progress());
  };
  TUTTI_TRY(wait_until(has_ended, is_worth_it, WaitPace::yields(kAwake, nap)));
  executor.links().board().post_awaited(kNoRank);
  return {};
}

}  // namespace tutti
