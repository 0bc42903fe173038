#include "comm/stream_wait.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "comm/communicator.h"
#include "comm/progress_state.h"

namespace tutti {
namespace {

/// After a failure, calls end within so many seconds if the progress thread is not held up.
constexpr double kEndOfFailed = 0.02;
/// That thread may be held up for so many seconds longer than a call may take.
constexpr double kHeldUpMore = 1;
/// Looks follow each other faster than this, unless the process was stopped between them.
constexpr double kLongestPauseSeconds = 0.2;

double limit_for(double timeout) { return timeout > 0 ? timeout + kHeldUpMore : 0; }

}  // namespace

StreamWait::StreamWait(FailureHandler& failures, Rank rank, double timeout)
    : failures_(failures), rank_(rank), limit_(limit_for(timeout)), rounds_(ProgressState::rounds()) {}

Status StreamWait::check() {
  const Clock::time_point now = Clock::now();
  const std::chrono::duration<double> pause = now - std::exchange(looked_, now);
  waited_ += std::min(pause.count(), ending_ ? kEndOfFailed / 2 : kLongestPauseSeconds);
  if (failures_.failed() && !std::exchange(ending_, true)) waited_ = 0;
  const std::uint64_t rounds = ProgressState::rounds();
  if (!ending_ && std::exchange(rounds_, rounds) != rounds) waited_ = 0;
  if (ending_) return waited_ < kEndOfFailed ? Status() : failures_.status();
  if (limit_ <= 0 || waited_ < limit_) return {};
  return failures_.fail_for_good(fail(Code::kTimeout, "rank {} waited {:.1f} s for its calls on streams: {}",
                                      rank_.value, limit_, "a callback holds up the thread that runs them"),
                                 rank_);
}

Status StreamWaits::check(Communicator& comm) {
  const auto wait = waits_.try_emplace(&comm, comm.failures(), comm.rank(), comm.call_driver().timeout()).first;
  return wait->second.check();
}

}  // namespace tutti
