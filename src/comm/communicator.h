// The communicator: one rank's view of a group of ranks. It owns everything below it, orders its operations and stamps
// them with sequence numbers.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/choice.h"
#include "collectives/plan_cache.h"
#include "comm/call/arguments.h"
#include "comm/call/call_check.h"
#include "comm/device/device_side.h"
#include "comm/failure/failure_handler.h"
#include "comm/failure/kernel_monitor.h"
#include "comm/failure/peers.h"
#include "comm/failure/running_call.h"
#include "comm/failure/wait_judge.h"
#include "comm/join/join.h"
#include "comm/launch_binder.h"
#include "comm/membership/membership.h"
#include "comm/oversubscription.h"
#include "comm/turn_queue.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/mutex.h"
#include "core/retry.h"
#include "core/settings.h"
#include "core/status.h"
#include "executor/executor.h"

namespace tutti {

class CudaStream;

/// Threads: one at a time calls the operations below (the C API's rule); failures(), async_error() and the membership's
/// listener at any time. Operations take a ticket when they are called and run when it is their turn.
class Communicator final {
 public:
  Communicator(const Settings& settings, std::string name, JoinResult&& joined, std::unique_ptr<Executor>&& executor,
               std::shared_ptr<const AutomaticChoice> choice, Oversubscription oversubscription);
  ~Communicator();

  Rank rank() const { return rank_; }
  int ranks() const { return ranks_; }
  /// As at the join, the timeout as it is now.
  Settings settings() const;
  const std::string& name() const { return name_; }
  Membership& membership() { return *joined_.membership; }
  /// What runs, or ran last. By the thread whose turn it is.
  const RunningCall& running() const { return running_; }
  Executor& executor() { return *running_.executor; }
  /// How it fails for good. Any thread.
  FailureHandler& failures() { return failures_; }
  /// What the other ranks do.
  const Peers& peers() const { return peers_; }
  /// Decides when the running operation waits in vain.
  WaitJudge& judge() { return judge_; }
  /// Kernels of calls that launch_on() put on CUDA streams.
  KernelMonitor& kernels() { return kernels_; }
  /// Calls on device memory are served by this from now on; before the first operation.
  void adopt(std::unique_ptr<DeviceSide> device);
  DeviceSide* device() { return device_.get(); }
  /// Once, before the first operation: from here on it hears of causes, and others can ask for its board.
  void start_listening();

  /// Completes and checks the arguments and runs the collective to its end on the calling thread, after all earlier
  /// operations.
  Status run(CallArguments* arguments);
  /// The same for sends and receives, which proceed together.
  Status run(std::span<Transfer> transfers);
  /// Completes the arguments of a call and checks them; finds out where its buffers are.
  Status check(CallArguments* arguments) const;
  Status check(const Transfer& transfer) const;

  /// Memory of the caller's that is often used: peers may read it where they can. From the API's thread.
  MemoryRanges& registered() { return binder_.registered(); }
  /// False: there is no such registration.
  bool deregister(std::uint64_t handle);

  /// In a handler of an exception: what it means for the caller of the running operation.
  Status failed_inside() const noexcept;
  /// The operations made for this communicator. From the API's thread.
  UserOperations& operations() { return call_check_.operations(); }
  /// Whether reductions of this size add all operands of an element at once and in rank order, so that several packed
  /// into one give the same bits.
  bool adds_in_rank_order(Bytes block) const {
    return is_deterministic(*binder_.plans().choice(Collective::kAllReduce, block).algorithm);
  }

  /// The order of operations. One that another thread runs takes its ticket in the caller's order, then, when it is its
  /// turn, begin(), drive the executor, finish(). begin() sets `*empty` where there is nothing to move.
  TurnQueue& turns() { return turns_; }
  const TurnQueue& turns() const { return turns_; }
  /// This rank moves nothing in the call, which may be one of kernels all the same: the other ranks know.
  bool has_unknown_memory(const CallArguments& arguments) const;
  /// Looks whether they have said so; kInProgress: not yet. When it is the call's turn.
  Status resolve_memory_kind(const CallArguments& arguments, bool* on_device);
  /// `placed`: it has its place in a CUDA stream.
  Status begin(const CallArguments& arguments, bool* empty, bool placed = false);
  /// What begin() made of the arguments, for the executor.
  const Launch& launch() const { return binder_.launch(); }
  Status begin(std::span<Transfer> transfers);
  Status finish(Status status, std::uint64_t ticket);
  /// Blocks until all operations that have a ticket have ended. By the API's thread. kInvalidUsage: in a callback of a
  /// stream, whose thread is what runs them. The failure, where there is one and they do not end by it. kTimeout, for
  /// good: that thread has been held up for longer than an operation may take.
  Status wait_until_quiet();

  /// Puts a checked call on a CUDA stream, after all earlier ones, and returns. `ended` is its end, of which
  /// KernelMonitor::poll() tells more by `launched`; it stays nullptr if there is nothing to wait for, or the call has
  /// become part of a graph. Blocks while earlier calls run that are not on CUDA streams.
  Status launch_on(const CallArguments& arguments, const CudaStream& stream, std::shared_ptr<DeviceEvent>* ended,
                   Call* launched);
  /// Whether a collective on a CUDA stream is put there by launch_on().
  bool launches(const CallArguments& arguments) const;
  /// A collective that goes through host memory gets its place in the CUDA stream and in `queue`, which takes these
  /// calls one after another, whichever thread made them. `gate` stays nullptr if the call goes another way.
  Status stage_on(const CudaStream& stream, void* queue, const CallArguments& arguments,
                  std::shared_ptr<StreamGate>* gate);
  /// Like the other stage_on(), for sends and receives, which always go through host memory.
  Status stage_on(const CudaStream& stream, std::span<const Transfer> transfers, std::shared_ptr<StreamGate>* gate);
  /// Whether a checked call can go elsewhere than on a CUDA stream now. kInvalidUsage: a stream is being captured.
  Status check_blocking(const CallArguments& arguments) const;
  Status check_blocking(std::span<const Transfer> transfers) const;
  /// Also what is known from peers although no call has met it yet.
  Status async_error();

  /// Seconds; 0: for ever. From the next operation on.
  double timeout() const { return timeout_seconds_.load(std::memory_order_relaxed); }
  void set_timeout(double seconds) { timeout_seconds_.store(seconds, std::memory_order_relaxed); }
  Status finalize();
  bool finalized() const { return finalized_; }

  /// What would run for a call: "all_pairs, 1 lane, tiles of 65536 bytes". From the API's thread.
  Status algorithm_for(Collective collective, Bytes bytes, bool on_device, std::string* text);
  /// The names that TUTTI_ALGO may have for a collective of this communicator, comma-separated.
  Status algorithms_of(Collective collective, std::string* text) const;
  /// Bytes of memory that peers can map: this rank's segment as far as it is touched.
  std::uint64_t shared_bytes() const;
  /// Bytes of private memory for schedules and scratch.
  Status host_bytes(std::uint64_t* bytes);
  /// Bytes of device memory for links and scratch.
  Status device_bytes(std::uint64_t* bytes);
  /// How this rank reaches the others: "shm", "tcp", "shm and tcp", "inproc".
  const char* transport() const;
  /// The same for device buffers: "cuda", or "staged over" what host buffers use. kUnsupported: there is no device.
  Status device_transport(std::string* text) const;
  const Machine& machine() const { return binder_.plans().machine(); }
  LogSource log_source() const { return LogSource{rank_, name_}; }

 private:
  void begin_again(const CallArguments& arguments);
  static RunningCall::Way way_of(const CallArguments& arguments);
  void run_on(RunningCall::Way way);
  Status may_begin();
  Status ask_memory_kind(const CallArguments& arguments);
  bool find_memory_kind(bool* on_device, Rank* missing) const;
  Status check_wait_for_memory_kind(Rank missing);
  Status wait_for_memory_kind(CallArguments* arguments);
  Status run_launch();
  Status bind_staged(const CallArguments& arguments);
  bool is_registered_on_device(const void* memory) const;
  Status check_default_stream(const char* what) const;
  Status open_stage(const CudaStream& stream, StreamKey* place);
  void listen();
  void stop_kernels();
  void wake();

  Settings settings_;
  std::atomic<double> timeout_seconds_;  // relaxed: set by callers, read by the thread that waits
  std::string name_;
  JoinResult joined_;
  Oversubscription oversubscription_;  // held for the communicators that this process makes later
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<DeviceSide> device_;  // nullptr: the process has no device
  CallBoard& board_;                    // the executor's
  Rank rank_;
  int ranks_;

  TurnQueue turns_;
  Peers peers_;
  FailureHandler failures_;
  CallCheck call_check_;
  RunningCall running_;
  LaunchBinder binder_;  // of what runs
  WaitJudge judge_;      // likewise
  KernelMonitor kernels_;

  bool finalized_ = false;
};

}  // namespace tutti
