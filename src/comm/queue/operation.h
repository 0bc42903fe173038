// An operation that another thread than its caller may run: a call in a group or on a stream.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/queue/queued_call.h"
#include "core/ladder.h"

namespace tutti {

/// Takes its turn among its communicator's operations, in the order of construction. Driven by one thread.
class Operation {
 public:
  enum class State : std::uint8_t { kQueued, kRunning, kEnded };

  /// The call has been checked.
  Operation(std::shared_ptr<Communicator> comm, QueuedCall call)
      : comm_(std::move(comm)), call_(std::move(call)), ticket_(comm_->turns().take(call_.collective())) {}

  /// A call that has its place in a CUDA stream.
  Operation(std::shared_ptr<Communicator> comm, QueuedCall call, std::shared_ptr<StreamGate> gate)
      : Operation(std::move(comm), std::move(call)) {
    gate_ = std::move(gate);
  }

  /// A call that is on a CUDA stream already and ends there.
  Operation(std::shared_ptr<Communicator> comm, std::shared_ptr<DeviceEvent> end, const Call& call)
      : comm_(std::move(comm)), ticket_(0), state_(State::kRunning), end_(std::move(end)), launched_(call) {}

  /// One that could not be queued gives its turn back. By the API's thread.
  ~Operation() {
    if (state_ == State::kQueued) comm_->turns().give_back(ticket_);
  }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// Moves what can be moved; never blocks. `check`: it has been waiting for a while, so ask the communicator about it.
  State poll(bool check);
  State state() const { return state_; }
  /// It waits for operations of its communicator before it.
  bool is_queued() const { return state_ == State::kQueued && !comm_->turns().is_turn(ticket_); }
  /// It has not begun, and never will: its communicator has failed.
  void give_up(Status why);
  /// How it ended.
  const Status& status() const { return status_; }
  Communicator& comm() { return *comm_; }
  /// It is on a CUDA stream: nothing wakes who waits for it.
  bool is_elsewhere() const { return end_ != nullptr; }
  /// Messages moved so far, for a driver that wants to know whether polling helps.
  std::uint64_t progress() const {
    return state_ == State::kRunning && !is_elsewhere() ? comm_->call_driver().executor().progress() : 0;
  }

 private:
  State step(bool check);
  bool may_begin();
  bool has_place();
  State watch();
  /// Begins it. False: it has ended already.
  bool begin();
  bool start();
  void end(Status status);

  std::shared_ptr<Communicator> comm_;
  QueuedCall call_;
  std::uint64_t ticket_;
  State state_ = State::kQueued;
  Status status_;
  bool memory_known_ = false;         // whether it is on device memory is known
  std::shared_ptr<DeviceEvent> end_;  // of a call on a CUDA stream; the rest of it is the communicator's
  Call launched_;
  std::shared_ptr<StreamGate> gate_;  // of a staged call on a CUDA stream, until it begins
};

/// Drives all to their end on the calling thread, in turn. The first error in their order. `add` is called between two
/// rounds and appends those that may begin now, until it says that there are no more.
Status run_all(std::vector<std::unique_ptr<Operation>>* operations, const std::function<bool()>& add);

/// One climb for a thread that drives several operations. True: nothing has moved for so long that it may sleep.
class OperationLadder {
 public:
  OperationLadder() : ladder_(LadderPolicy::choose(true, -1)) {}
  /// After a round of polls that moved something or not.
  bool climb(bool moved);
  /// It is time to ask the communicators, about once a millisecond.
  bool is_check_due() const { return check_due_; }

 private:
  Ladder ladder_;
  std::chrono::nanoseconds checked_{0};
  bool check_due_ = false;
};

}  // namespace tutti
