// How a communicator fails: by an error or exception of its own, by an abort, or by a cause that another rank tells.
#include "comm/communicator.h"
#include "core/no_cancel.h"
#include "core/retry.h"

namespace tutti {

// Memory can run out in the middle of an operation, and a function of the caller's can throw what it likes; the ticket
// is given back all the same.
Status Communicator::failed_inside() const noexcept {
  try {
    return what_was_thrown(fmt::format("{} of rank {}", what_runs(), rank_.value));
  } catch (...) {
    return no_memory();
  }
}

Status Communicator::fail_call() noexcept {
  try {
    return fail_for_good(what_was_thrown(fmt::format("a call of rank {} that was not queued", rank_.value)), kNoRank);
  } catch (...) {
    return fail_for_good(no_memory(), kNoRank);
  }
}

/// The caller has an error already, perhaps because memory ran out, so nothing here may throw.
Status Communicator::fail_for_good(Status status, Rank culprit) noexcept {
  const NoCancel no_cancel;
  if (!failure_.set(&status)) return status;
  if (device_ != nullptr) device_->stop_kernels();
  retry_without_memory([&] { tell_of_failure(status, culprit); });
  alarm_.store(1, std::memory_order_release);
  executor_->wake();
  turns_.announce();
  retry_without_memory([&] {  // when all have heard of it
    log(LogLevel::kError, log_source(), "{}: {}", name_of(status.code()), status.text());
  });
  return status;
}

/// A peer's own cause needs no echo; post_cause keeps the first one at each rank, so a late echo does no harm.
void Communicator::tell_of_failure(const Status& status, Rank culprit) {
  if (joined_.membership->cause().code != Code::kOk) return;
  FailureCause cause;
  cause.code = status.code() == Code::kAborted ? Code::kRemoteError : status.code();
  cause.from = rank_;
  cause.culprit = culprit;
  cause.text = status.text();
  joined_.membership->post_cause(cause);
}

void Communicator::abort() {
  const Status aborted = fail(Code::kAborted, "rank {} aborted the communicator", rank_.value);
  (void)fail_for_good(aborted, rank_);  // the abort itself succeeds; the status is for the calls that it ends
}

Status Communicator::adopt_cause() {
  const FailureCause cause = joined_.membership->cause();
  if (cause.code == Code::kOk) return {};
  // One of its own it has failed by, unless the hub posted it for this rank: whom it cannot connect to, the hub finds.
  if (cause.from == rank_)
    return failed() ? failure() : fail_for_good(fail(cause.code, "{}", cause.text), cause.culprit);
  return fail_for_good(fail(cause.code, "{} (told by rank {})", cause.text, cause.from.value), cause.culprit);
}

}  // namespace tutti
