// The call driver takes each operation of a communicator through the same stages: take a turn, begin (plan and bind),
// run, finish. A blocking call goes through them at once and a queued one step by step. A call that becomes a kernel on
// a CUDA stream leaves them when it is bound.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "comm/call/arguments.h"
#include "comm/failure/failure_handler.h"
#include "comm/failure/peers.h"
#include "comm/failure/running_call.h"
#include "comm/failure/wait_judge.h"
#include "comm/launch_binder.h"
#include "comm/link_use.h"
#include "comm/turn_queue.h"
#include "core/call_board.h"
#include "core/log.h"
#include "core/settings.h"
#include "core/status.h"
#include "executor/executor.h"

namespace tutti {

/// One per communicator. It knows no device: what calls on device buffers do differently is in DeviceCalls, which uses
/// the parts of begin(). For the thread whose turn it is, unless a function says otherwise.
class CallDriver {
 public:
  /// All arguments outlive this, and so does the name in `source`. `host` is the executor of calls on host memory.
  CallDriver(const Settings& settings, std::shared_ptr<const AutomaticChoice> choice, const Peers& peers,
             FailureHandler& failures, WaitJudge& judge, Executor& host, LogSource source);

  // Blocking calls, for the API's thread.

  /// Runs a checked collective on host memory to its end on the calling thread, after all earlier operations.
  Status run(const CallArguments& arguments) {
    return run_in_turn([&](bool* nothing_to_run) { return begin(arguments, nothing_to_run); });
  }
  /// Runs sends and receives likewise; they proceed together.
  Status run(std::span<Transfer> transfers) {
    return run_in_turn([&](bool*) { return begin(transfers); });
  }
  /// Whether the call repeats the last one, so that run_again() can run it without check, plan and most of the binding.
  bool is_repeat(const CallArguments& arguments) const {
    return turns_.is_empty() && binder_.is_repeat(arguments, running_.call);
  }
  Status run_again(const CallArguments& arguments);
  /// Waits for all earlier operations, takes a turn, begins the operation by begin(&nothing_to_run), runs it unless
  /// there is nothing to run, and finishes it.
  template <class Begin>
  Status run_in_turn(const Begin& begin);
  /// Blocks until all operations that have a ticket have ended. Returns kInvalidUsage in a callback of a stream,
  /// because that thread runs the operations. Returns the communicator's failure if there is one and the operations do
  /// not end because of it. Fails for good with kTimeout if that thread has been held up for longer than an operation
  /// may take.
  Status wait_until_quiet();
  /// Moves what waits on the links if no operation uses them: a peer may have lost a connection, and need again what it
  /// carried. Returns whether that need not be done again, because all that was sent is in the hands of the peers'
  /// systems, or the communicator has failed. For the service thread; memory can run out.
  bool serve_unused_links();
  /// From now on the service thread calls that function. Called before the first operation.
  void share_links() { link_use_.share(); }
  /// The private memory of plans, scratch and links. Call it while the queue is empty.
  std::size_t memory_bytes();

  // A queued operation goes the same way step by step: begin(), start(), advance() until it is done or fails, finish().

  /// Sets `nothing_to_run` if the call moves nothing, and so is not to be started.
  Status begin(const CallArguments& arguments, bool* nothing_to_run);
  Status begin(std::span<Transfer> transfers) { return begin(transfers, RunningCall::Way::kHost, host_); }
  void start();
  /// Moves what can be moved; never blocks. `check`: it has waited for a while, so the judge is asked whether the wait
  /// can end well. If it returns an error, the operation has failed, and is to be finished.
  Status advance(bool check, bool* done);
  /// Gives the turn back; returns how the operation ended.
  Status finish(Status status, std::uint64_t ticket);
  /// Returns, in a handler of an exception, what that means for the caller of the running operation.
  Status failed_inside() const noexcept;

  // The parts of begin().

  /// Fails if no operation may begin any more. Otherwise it forgets the last call, so that the next one is bound anew.
  /// The links are the operation's until finish().
  Status prepare_to_begin();
  /// Gives the call its number and writes it on the board, where peers can read it. From now on its waits are judged.
  void post_call(const CallArguments& arguments, RunningCall::Way way, Executor& executor);
  /// Posts the next call before its begin(), while it is not known whether the call is on host memory.
  void post_memory_unknown(const CallArguments& arguments);
  /// `executor`, which moves the data of these transfers, may be another one than the host's.
  Status begin(std::span<Transfer> transfers, RunningCall::Way way, Executor& executor);
  /// Finalize is a collective that moves nothing. Returns the number of the last call before it.
  std::uint64_t begin_finalize();

  /// No operation begins after this. By the API's thread.
  void close() { closed_ = true; }
  bool closed() const { return closed_; }

  TurnQueue& turns() { return turns_; }
  LaunchBinder& binder() { return binder_; }
  const LaunchBinder& binder() const { return binder_; }
  /// The operation that runs, or ran last.
  const RunningCall& running() const { return running_; }
  Executor& executor() { return *running_.executor; }
  Executor& host() { return host_; }
  CallBoard& board() { return board_; }

  /// In seconds; 0 means for ever. A new timeout counts from the next operation on. Any thread.
  double timeout() const { return timeout_seconds_.load(std::memory_order_relaxed); }
  void set_timeout(double seconds) { timeout_seconds_.store(seconds, std::memory_order_relaxed); }

 private:
  Status run_launch();
  Status run_begun();
  void finish_well(std::uint64_t ticket);
  Status finish_failed(Status status, std::uint64_t ticket);

  const Rank rank_;
  FailureHandler& failures_;
  WaitJudge& judge_;
  Executor& host_;
  CallBoard& board_;                     // the board of the host executor's links
  std::atomic<double> timeout_seconds_;  // relaxed: set by callers, read by the thread that waits
  bool closed_ = false;
  TurnQueue turns_;
  LinkUse link_use_;
  RunningCall running_;
  std::span<Transfer> transfers_;  // those of the running operation, if it is sends and receives
  LaunchBinder binder_;            // binds the running operation, if it is a collective
};

// Nothing is built, allocated or locked here, because a program that makes small calls waits for this.
inline Status CallDriver::run_again(const CallArguments& arguments) {
  const std::uint64_t ticket = turns_.take();
  link_use_.begin();
  if (!binder_.has_same_root(arguments)) binder_.change_root(arguments, &running_.call);
  running_.call.sequence = turns_.begin_number();
  board_.begin(running_.call);
  running_.timeout = timeout();
  judge_.begin();
  binder_.bind_again(arguments, running_.call);
  Status status = run_launch();
  if (status.ok()) [[likely]] {
    finish_well(ticket);
  } else {
    status = finish_failed(std::move(status), ticket);
  }
  return status;
}

inline void CallDriver::finish_well(std::uint64_t ticket) {
  board_.end(turns_.number());
  link_use_.end();
  turns_.end(ticket);
}

inline Status CallDriver::run_launch() {
  try {
    return running_.executor->run(binder_.launch(), judge_);
  } catch (...) {
    return failed_inside();
  }
}

template <class Begin>
Status CallDriver::run_in_turn(const Begin& begin) {
  if (!turns_.is_empty()) [[unlikely]]
    TUTTI_TRY(wait_until_quiet());
  const std::uint64_t ticket = turns_.take();
  Status status;
  bool nothing_to_run = false;
  try {
    status = begin(&nothing_to_run);
    if (status.ok() && !nothing_to_run) status = run_begun();
  } catch (...) {
    status = failed_inside();
  }
  return finish(std::move(status), ticket);
}

}  // namespace tutti
