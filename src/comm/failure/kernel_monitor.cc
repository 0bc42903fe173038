#include "comm/failure/kernel_monitor.h"

#include <chrono>
#include <utility>

#include "comm/failure/culprit.h"
#include "core/wait_until.h"

namespace tutti {

namespace {
/// The sleep between two looks.
constexpr std::chrono::microseconds kNap{100};
}  // namespace

Status KernelMonitor::look_at_graphs() {
  if (executor_ == nullptr) return {};
  Status status = executor_->reported_by_graphs();
  return status.ok() ? status : failures_.fail_for_good(std::move(status), kNoRank);
}

bool KernelMonitor::look_after_graphs() {
  if (failures_.failed()) return false;
  return failures_.adopt_cause().ok() && look_for_lost_kernels("a call on device memory").ok() && look_at_graphs().ok();
}

// A kernel that gave up knows one rank that it waited for. The boards show which of all ranks has not come.
Status KernelMonitor::end_of_kernel(Status status, const Call& call) {
  if (status.ok() || status.code() == Code::kInProgress) return status;
  const Rank awaited = executor_->timed_out();
  if (status.code() != Code::kTimeout || awaited == kNoRank) return failures_.fail_for_good(std::move(status), kNoRank);
  return judge_.kernel_timed_out(call, awaited);
}

Status KernelMonitor::poll(const CallEnd& ended, const Call& call) {
  const std::string what = describe(call);
  Status status = end_of_kernel(executor_->poll(ended, what), call);
  if (status.code() != Code::kInProgress) return status;
  // A peer's cause stops the kernel, which may wait for what will not come. It then ends by itself.
  if (failures_.adopt_cause().ok()) (void)look_for_lost_kernels(what);
  return status;
}

bool KernelMonitor::is_running() const {
  return executor_ != nullptr && !failures_.failed() && executor_->poll_last().code() == Code::kInProgress;
}

// The kernels of a process end with it. Whether they had done their part is not known, only whether this rank's kernel
// still waits for anybody. If they had, this rank's kernel finds what they delivered long before kLostTimeout has
// passed.
Status KernelMonitor::look_for_lost_kernels(const std::string& what) {
  constexpr std::chrono::milliseconds kLostTimeout{200};
  if (!spans_processes_ || failures_.failed()) return {};
  Rank lost = kNoRank;
  for (Rank peer{0}; peer.value < peers_.ranks() && lost == kNoRank; ++peer)
    if (peer != peers_.rank() && peers_.liveness(peer) != Liveness::kAlive) lost = peer;
  if (lost == kNoRank || executor_->awaited() == kNoRank) return {};
  const MutexLock lock(mutex_);
  if (lost_ != lost || lost_waits_ != executor_->waits()) {
    lost_ = lost;
    lost_waits_ = executor_->waits();
    lost_since_ = Clock::now();
  }
  if (Clock::now() - lost_since_ < kLostTimeout) return {};
  TUTTI_TRY(failures_.adopt_cause());  // a rank that posts a cause does so before it leaves
  return failures_.fail_for_good(fail(Code::kRemoteError, "{} during {}", peers_.describe_end(lost), what), lost);
}

// Kernels on CUDA streams end by their own deadlines, but may come after work of the caller's that never ends. So
// nobody waits for them after a failure.
Status KernelMonitor::wait(const Call& call) {
  if (executor_ == nullptr) return {};
  Status end;
  const auto has_ended = [&] {
    end = end_of_kernel(executor_->poll_last(), call);
    return end.code() != Code::kInProgress;
  };
  const auto is_worth_it = [&](bool) {
    if (failures_.adopt_cause().ok()) (void)look_for_lost_kernels(describe(call));
    return failures_.status();
  };
  TUTTI_TRY(wait_until(has_ended, is_worth_it, WaitPace::naps(kNap)));
  return end;
}

// An earlier call may never end; then this one fails with it.
Status KernelMonitor::wait_for_room(const Call& call) {
  const auto is_worth_it = [&](bool) {
    (void)end_of_kernel(executor_->reported(describe(call)), call);
    if (failures_.adopt_cause().ok()) (void)look_for_lost_kernels(describe(call));
    return failures_.status();
  };
  return wait_until([this] { return executor_->has_room(); }, is_worth_it, WaitPace::naps(kNap));
}

}  // namespace tutti
