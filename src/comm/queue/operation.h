// An operation is a call in a group or on a stream, which another thread than its caller may run.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/queue/queued_call.h"
#include "core/ladder.h"

namespace tutti {

/// It takes its turn among its communicator's operations, in the order of construction. One thread drives it.
class Operation {
 public:
  enum class State : std::uint8_t { kQueued, kRunning, kEnded };

  /// For a call that has been checked.
  Operation(std::shared_ptr<Communicator> comm, QueuedCall call)
      : comm_(std::move(comm)), call_(std::move(call)), ticket_(comm_->turns().take(call_.collective())) {}

  /// For a call that goes through host memory and has its place in a CUDA stream.
  Operation(std::shared_ptr<Communicator> comm, QueuedCall call, std::shared_ptr<StreamGate> gate)
      : Operation(std::move(comm), std::move(call)) {
    gate_ = std::move(gate);
  }

  /// For a call that is on a CUDA stream already and ends there.
  Operation(std::shared_ptr<Communicator> comm, std::shared_ptr<CallEnd> end, const Call& call)
      : comm_(std::move(comm)), ticket_(0), state_(State::kRunning), end_(std::move(end)), launched_(call) {}

  /// An operation that could not be queued gives its turn back. Then the API's thread destroys it.
  ~Operation() {
    if (state_ == State::kQueued) comm_->turns().give_back(ticket_);
  }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// Moves what can be moved; never blocks. `check`: it has been waiting for a while, so the communicator is asked
  /// about the wait.
  State poll(bool check);
  State state() const { return state_; }
  /// Whether it waits for earlier operations of its communicator.
  bool is_queued() const { return state_ == State::kQueued && !comm_->turns().is_turn(ticket_); }
  /// Ends an operation that has not begun, because its communicator has failed.
  void give_up(Status why);
  /// Whether a thread that drives nothing else may sleep on its links' futex: it runs, and not elsewhere.
  bool can_sleep() const { return state_ == State::kRunning && !is_elsewhere(); }
  RankLinks& links() { return comm_->call_driver().executor().links(); }
  /// Sleeps until something comes that it may wait for, at most 100 ms, after links().announce_sleep() and if another
  /// poll moves nothing. It can sleep.
  void sleep();
  /// How it ended.
  const Status& status() const { return status_; }
  Communicator& comm() { return *comm_; }
  /// Whether it is on a CUDA stream, so that nothing wakes who waits for it.
  bool is_elsewhere() const { return end_ != nullptr; }
  /// Messages moved so far, for a driver that wants to know whether polling helps.
  std::uint64_t progress() const { return can_sleep() ? comm_->call_driver().executor().progress() : 0; }

 private:
  State step(bool check);
  bool may_begin();
  bool has_place();
  State watch();
  /// Begins it. Returns false if it has ended already.
  bool begin();
  bool start();
  void end(Status status);

  std::shared_ptr<Communicator> comm_;
  QueuedCall call_;
  std::uint64_t ticket_;
  State state_ = State::kQueued;
  Status status_;
  bool memory_known_ = false;     // whether it is known if the call is on device memory
  std::shared_ptr<CallEnd> end_;  // the end of a call on a CUDA stream
  Call launched_;
  std::shared_ptr<StreamGate> gate_;  // the place of a staged call in a CUDA stream, until the call begins
};

/// Drives all operations to their end on the calling thread, in turn. Returns the first error in their order. `add` is
/// called between two rounds and appends operations that may begin now, until it returns true because there are no
/// more.
Status run_all(std::vector<std::unique_ptr<Operation>>* operations, const std::function<bool()>& add);

/// The waiting of a thread that drives several operations: it spins, then yields, and then may sleep.
class OperationLadder {
 public:
  OperationLadder() : ladder_(LadderPolicy::choose(2, -1)) {}
  /// Called after a round of polls. `moved`: the round moved something. Returns true if nothing has moved for so long
  /// that the thread may sleep.
  bool climb(bool moved);
  /// How long the thread then sleeps if nothing wakes it: `shortest`, or an eighth of the wait if that is longer, but
  /// at most 50 us for each rank on the core, and never more than 20 ms: an abort waits for 50 until it is heard.
  std::chrono::nanoseconds nap(std::chrono::nanoseconds shortest, int ranks_per_core) const;
  /// Whether it is time to ask the communicators about the waits, about once a millisecond.
  bool is_check_due() const { return check_due_; }

 private:
  Ladder ladder_;
  std::chrono::nanoseconds checked_{0};
  bool check_due_ = false;
};

}  // namespace tutti
