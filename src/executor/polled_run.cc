#include "executor/polled_run.h"

#include <thread>

#include "core/clock.h"

namespace tutti {

namespace {
/// How long a call is polled before its thread sleeps between looks.
constexpr std::chrono::milliseconds kAwake{1};
}  // namespace

Status run_polled(Executor& executor, WaitMonitor& monitor, std::chrono::microseconds nap) {
  const auto began = Clock::now();
  auto next_check = began + kAwake;
  for (;;) {
    const Progress outcome = executor.advance();
    if (outcome == Progress::kDone) break;
    const auto now = Clock::now();
    if (outcome == Progress::kFailed || monitor.alarmed() || now >= next_check) {
      executor.board().wait_for(executor.missing());
      TUTTI_TRY(monitor.check(executor.missing(), executor.progress()));
      next_check = now + kAwake;
    }
    if (now - began < kAwake) {
      std::this_thread::yield();
    } else {
      executor.serve();
      std::this_thread::sleep_for(nap);
    }
  }
  executor.board().wait_for(kNoRank);
  return {};
}

}  // namespace tutti
