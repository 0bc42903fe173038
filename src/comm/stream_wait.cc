#include "comm/stream_wait.h"

#include <utility>

#include "comm/communicator.h"
#include "comm/progress_state.h"

namespace tutti {
namespace {

/// Seconds after a failure in which calls end, if the progress thread is not held up.
constexpr double kEndOfFailed = 0.02;
/// How much longer than a call may take that thread may be held up.
constexpr double kHeldUpMore = 1;

double limit_for(double timeout) { return timeout > 0 ? timeout + kHeldUpMore : 0; }

}  // namespace

StreamWait::StreamWait(Communicator& comm)
    : comm_(comm),
      limit_(limit_for(comm.timeout())),
      rounds_(ProgressState::rounds()),
      deadline_(Deadline::in(limit_)) {}

Status StreamWait::check() {
  if (comm_.failures().failed() && !std::exchange(ending_, true)) deadline_ = Deadline::in(kEndOfFailed);
  const std::uint64_t rounds = ProgressState::rounds();
  if (!ending_ && std::exchange(rounds_, rounds) != rounds) deadline_ = Deadline::in(limit_);
  if (!deadline_.passed()) return {};
  if (ending_) return comm_.failures().status();
  return comm_.failures().fail_for_good(
      fail(Code::kTimeout, "rank {} waited {:.1f} s for its calls on streams: {}", comm_.rank().value, limit_,
           "a callback holds up the thread that runs them"),
      comm_.rank());
}

}  // namespace tutti
