// How a communicator fails for good: by an error of its own, by an abort, or by a cause that another rank sent.
#pragma once

#include <functional>

#include "comm/failure/failure_state.h"
#include "comm/membership/membership.h"
#include "core/log.h"
#include "core/status.h"
#include "core/units.h"

namespace tutti {

/// Any thread.
class FailureHandler {
 public:
  /// What the first failure calls. The hooks neither throw nor block.
  struct Hooks {
    std::function<void()> stop_kernels;  ///< called before the other ranks hear of the failure
    std::function<void()> wake;          ///< called after that, so that who waits finds the failure
  };

  /// The membership outlives this, and so does the name in `source`.
  FailureHandler(Membership& membership, LogSource source, Hooks hooks);

  bool failed() const { return state_.failed(); }
  /// The first failure; ok while there is none.
  Status status() const { return state_.status(); }
  /// Fails the communicator, unless it has failed before: sends the cause to all other ranks, wakes who waits here, and
  /// logs. Returns the first failure, within 0.1 s. If there is no memory, it returns within 2 s, and only the ranks of
  /// this process hear of the failure.
  Status fail_for_good(Status status, Rank culprit) noexcept;
  /// Fails the communicator by the cause that another rank, or the service thread, has posted. Ok if there is none.
  Status adopt_cause();
  /// Asked by a call that begins: returns the failure, if there is one, also a revocation, or that a shrink has left
  /// ranks out, that no call has met yet. Of another cause a call hears when it waits, so that what peers sent before
  /// they failed is used.
  Status before_call();
  /// Fails the communicator because the caller has aborted it.
  void abort();
  /// Fails the communicator on all ranks, with kAborted, because the caller has revoked it. Nothing happens if it has
  /// failed before.
  void revoke();
  /// Whether the first failure is that this rank or another one has revoked the communicator.
  bool revoked() const { return state_.revoked(); }
  /// Fails the communicator in a handler of an exception that was thrown before a call was queued, because the other
  /// ranks may run that call.
  Status fail_call() noexcept;
  /// Runs `body`, which runs or queues a call, and fail_call() if it throws.
  template <class Body>
  Status attempt(const Body& body) {
    try {
      return body();
    } catch (...) {
      return fail_call();
    }
  }

 private:
  Status fail_and_tell(Status status, Code told, Rank culprit) noexcept;
  void tell_others(const Status& status, Code told, Rank culprit);
  void tell_this_process(Rank culprit) noexcept;

  Membership& membership_;
  const LogSource source_;
  const Hooks hooks_;
  const Status aborted_;     // made beforehand, because an abort must not need memory
  const Status revocation_;  // likewise
  FailureState state_;
};

}  // namespace tutti
