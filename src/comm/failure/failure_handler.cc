#include "comm/failure/failure_handler.h"

#include <utility>

#include "core/no_cancel.h"
#include "core/retry.h"

namespace tutti {

FailureHandler::FailureHandler(Membership& membership, LogSource source, Hooks hooks)
    : membership_(membership),
      source_(source),
      hooks_(std::move(hooks)),
      aborted_(fail(Code::kAborted, "rank {} aborted the communicator", membership.rank().value)),
      revocation_(fail(Code::kAborted, "rank {} revoked the communicator", membership.rank().value)) {}

/// An abort is a remote error for the other ranks.
Status FailureHandler::fail_for_good(Status status, Rank culprit) noexcept {
  const Code told = status.code() == Code::kAborted ? Code::kRemoteError : status.code();
  return fail_and_tell(std::move(status), told, culprit);
}

/// The caller has an error already, perhaps because memory ran out, so nothing here may throw.
Status FailureHandler::fail_and_tell(Status status, Code told, Rank culprit) noexcept {
  const NoCancel no_cancel;
  if (!state_.set(&status, told == Code::kAborted)) return status;
  hooks_.stop_kernels();
  if (!retry_without_memory([&] { tell_others(status, told, culprit); })) tell_this_process(culprit);
  hooks_.wake();
  retry_without_memory([&] {  // last, when all have heard of the failure
    log(LogLevel::kError, source_, "{}: {}", name_of(status.code()), status.text());
  });
  return status;
}

/// A peer's own cause needs no echo; post_cause keeps the first one at each rank, so a late echo does no harm.
void FailureHandler::tell_others(const Status& status, Code told, Rank culprit) {
  if (membership_.cause().code != Code::kOk) return;
  FailureCause cause;
  cause.code = told;
  cause.from = membership_.rank();
  cause.culprit = culprit;
  cause.text = status.text();
  membership_.post_cause(cause);
}

/// The ranks of this process get a text that takes no memory. Those of other processes find out by themselves.
void FailureHandler::tell_this_process(Rank culprit) noexcept {
  try {
    tell_others(no_memory(), no_memory().code(), culprit);
  } catch (...) {  // The messages to the other processes found no memory.
  }
}

void FailureHandler::abort() {
  // The abort itself succeeds; the status is for the calls that it ends.
  (void)fail_for_good(aborted_, membership_.rank());
}

/// A cause that a peer has posted before is the first failure, also if no call has met it yet.
void FailureHandler::revoke() {
  if (adopt_cause().ok()) (void)fail_and_tell(revocation_, Code::kAborted, membership_.rank());
}

Status FailureHandler::fail_call() noexcept {
  try {
    return fail_for_good(
        what_was_thrown(fmt::format("a call of rank {} that was not queued", membership_.rank().value)), kNoRank);
  } catch (...) {
    return fail_for_good(no_memory(), kNoRank);
  }
}

Status FailureHandler::before_call() {
  if (failed()) return status();
  const FailureCause cause = membership_.cause();
  return cause.code == Code::kAborted || cause.ends_calls ? adopt_cause() : Status{};
}

Status FailureHandler::adopt_cause() {
  const FailureCause cause = membership_.cause();
  if (cause.code == Code::kOk) return {};
  // The communicator has failed already by a cause of this rank's own, unless the hub has posted it for this rank, for
  // example because it cannot connect to a peer.
  if (cause.from == membership_.rank())
    return failed() ? status() : fail_for_good(fail(cause.code, "{}", cause.text), cause.culprit);
  return fail_and_tell(fail(cause.code, "{} (told by rank {})", cause.text, cause.from.value), cause.code,
                       cause.culprit);
}

}  // namespace tutti
