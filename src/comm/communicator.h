// The communicator: one rank's view of a group of ranks. It owns everything below it, orders its operations, stamps
// them with sequence numbers, and decides when a wait is in vain.
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
#include "comm/call/user_operation.h"
#include "comm/culprit.h"
#include "comm/device/device_side.h"
#include "comm/failure_state.h"
#include "comm/join/join.h"
#include "comm/membership/membership.h"
#include "comm/oversubscription.h"
#include "comm/turn_queue.h"
#include "core/clock.h"
#include "core/memory.h"
#include "core/mutex.h"
#include "core/retry.h"
#include "core/settings.h"
#include "core/status.h"
#include "core/wait_monitor.h"
#include "executor/executor.h"

namespace tutti {

class CudaStream;

/// Threads: one at a time calls the operations below (the C API's rule); abort(), failure(), async_error() and the
/// membership's listener at any time. Operations take a ticket when they are called and run when it is their turn.
class Communicator final : public WaitMonitor {
 public:
  Communicator(const Settings& settings, std::string name, JoinResult&& joined, std::unique_ptr<Executor>&& executor,
               std::shared_ptr<const AutomaticChoice> choice, Oversubscription oversubscription);
  ~Communicator() override;

  Rank rank() const { return rank_; }
  int ranks() const { return ranks_; }
  /// As at the join, the timeout as it is now.
  Settings settings() const;
  const std::string& name() const { return name_; }
  Membership& membership() { return *joined_.membership; }
  /// Of the operation that runs, or ran last.
  Executor& executor() { return *active_; }
  bool runs_staged() const { return device_ != nullptr && active_ == device_->staged(); }
  /// Calls on device memory are served by this from now on; before the first operation.
  void adopt(std::unique_ptr<DeviceSide> device) { device_ = std::move(device); }
  DeviceSide* device() { return device_.get(); }
  /// Once, before the first operation: from here on it hears of causes, and others can ask for its board.
  void start_listening();

  /// Completes and checks the arguments and runs the collective to its end on the calling thread, after all earlier
  /// operations.
  Status run(CallArguments* arguments);
  /// The same for sends and receives, which proceed together.
  Status run(std::span<Transfer> transfers);
  /// Completes arguments by what the communicator knows (user-made operation, wire type) and checks them.
  Status prepare(CallArguments* arguments) const;
  Status prepare(const Transfer& transfer) const;

  /// Memory of the caller's that is often used: peers may read it where they can. From the API's thread.
  MemoryRanges& registered() { return registered_; }
  /// False: there is no such registration.
  bool deregister(std::uint64_t handle);

  /// In a handler of an exception: what it means for the caller of the running operation.
  Status failed_inside() const noexcept;
  /// In a handler of an exception that was thrown before a call was queued. The other ranks may run that call, so the
  /// communicator fails.
  Status fail_call() noexcept;
  /// Runs `body`, which runs or queues a call; fail_call() if it throws.
  template <class Body>
  Status attempt(const Body& body) {
    try {
      return body();
    } catch (...) {
      return fail_call();
    }
  }

  /// The operations made for this communicator. From the API's thread.
  UserOperations& operations() { return operations_; }
  const UserOperations& operations() const { return operations_; }
  /// Whether reductions of this size add all operands of an element at once and in rank order, so that several packed
  /// into one give the same bits.
  bool adds_in_rank_order(Bytes block) const {
    return is_deterministic(*plans_.choice(Collective::kAllReduce, block).algorithm);
  }

  /// The order of operations. One that another thread runs takes its ticket in the caller's order, then, when it is its
  /// turn, begin(), drive the executor, finish(). begin() sets `*empty` where there is nothing to move.
  TurnQueue& turns() { return turns_; }
  const TurnQueue& turns() const { return turns_; }
  /// Kernels of earlier calls on CUDA streams run: a call that is not put after them has to wait. By the thread that
  /// begins the next call.
  bool has_kernels() const;
  /// This rank moves nothing in the call, which may be one of kernels all the same: the other ranks know.
  bool has_unknown_memory(const CallArguments& arguments) const;
  /// Looks whether they have said so; kInProgress: not yet. When it is the call's turn.
  Status resolve_memory_kind(const CallArguments& arguments, bool* on_device);
  /// `placed`: it has its place in a CUDA stream.
  Status begin(const CallArguments& arguments, bool* empty, bool placed = false);
  /// What begin() made of the arguments, for the executor.
  const Launch& launch() const { return launch_; }
  Status begin(std::span<Transfer> transfers);
  Status finish(Status status, std::uint64_t ticket);
  /// Blocks until all operations that have a ticket have ended. By the API's thread. kInvalidUsage: in a callback of a
  /// stream, whose thread is what runs them. The failure, where there is one and they do not end by it. kTimeout, for
  /// good: that thread has been held up for longer than an operation may take.
  Status wait_until_quiet();

  /// Puts a checked call on a CUDA stream, after all earlier ones, and returns. `ended` is its end, of which poll()
  /// tells more by `launched`; it stays nullptr if there is nothing to wait for, or the call has become part of a
  /// graph. Blocks while earlier calls run that are not on CUDA streams.
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
  /// kInProgress, or how such a call ended. Any one thread.
  Status poll(const DeviceEvent& ended, const Call& call);

  /// WaitMonitor: is the wait of the running operation still worth it?
  Status check(Rank missing, std::uint64_t progress) override;

  /// The first final failure; ok while there is none.
  Status failure() const { return failure_.status(); }
  bool failed() const { return failure_.failed(); }
  /// Also what is known from peers although no call has met it yet.
  Status async_error();

  /// Returns the rank that keeps one of these ranks from finishing the call that this rank made last; kNoRank if all
  /// have finished it. Ranks on other hosts are judged by their last answer to ask_boards(). By the API's thread.
  Culprit late_in_last_call(const std::vector<int>& ranks) const;
  /// Asks those of these ranks whose boards cannot be read here. Does not block.
  void ask_boards(const std::vector<int>& ranks);
  /// Seconds; 0: for ever. From the next operation on.
  double timeout() const { return timeout_seconds_.load(std::memory_order_relaxed); }
  void set_timeout(double seconds) { timeout_seconds_.store(seconds, std::memory_order_relaxed); }
  Status finalize();
  bool finalized() const { return finalized_; }
  void abort();

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
  const Machine& machine() const { return plans_.machine(); }
  LogSource log_source() const { return LogSource{rank_, name_}; }

 private:
  friend class StreamWait;
  /// The last call, if the next one may be bound to what it was bound to.
  struct Repeat {
    bool possible = false;
    CallArguments call;
    Bytes block{0};
  };
  bool is_repeat(const CallArguments& arguments) const;
  void begin_again(const CallArguments& arguments);
  void change_root(const CallArguments& arguments);
  void remember(const CallArguments& arguments, Bytes block);
  Status may_begin();
  Status wait_for_memory_kind(CallArguments* arguments);
  Status run_launch();
  Status fail_for_good(Status status, Rank culprit) noexcept;
  void tell_of_failure(const Status& status, Rank culprit);
  bool exceeds_cache(Collective collective, Bytes block, const Launch& launch) const;
  bool may_share_input(const CallArguments& arguments, const Launch& launch);
  bool may_lend(const CallArguments& arguments, const Launch& launch) const;
  Status bind_staged(const CallArguments& arguments, Launch* launch);
  bool is_registered_on_device(const void* memory) const;
  bool runs_on_device() const { return device_ != nullptr && active_ == device_->executor(); }
  void bind_reduction(const CallArguments& arguments, Launch* launch);
  Status adopt_cause();
  Status look_for_disagreement();
  Status look_for_transfer_faults();
  Status look_for_finished(Rank missing, std::uint64_t progress);
  bool concerns(Rank peer, Liveness liveness, Rank missing) const;
  std::string what_runs() const;
  Culprit culprit_of_wait(Rank missing) const;
  std::string others_missing(const Call& call) const;
  Status end_of_kernel(Status status, const Call& call);
  Status look_for_deaths(Rank missing, std::uint64_t progress);
  bool is_far(Rank peer) const { return static_cast<const Executor&>(*executor_).board(peer) == nullptr; }
  void ask_far_ranks();
  Status gone(Rank peer, Liveness liveness);
  Status odd_message(Rank from);
  Status look_for_past_disagreement(std::uint64_t last);
  Status look_at_clock(Rank missing, std::uint64_t progress);
  void warn_of_missing(Rank missing, double waited);
  bool finished_by(Rank peer, std::uint64_t sequence) const;
  bool is_done_with(Rank peer, std::uint64_t last) const;
  Status look_for_lost_kernels(const Call& call);
  Status wait_for_peers_to_finish();
  Status wait_for_delivery();
  Status wait_for_kernels();
  Status look_at_graphs();
  Status check_default_stream(const char* what) const;
  Status open_stage(const CudaStream& stream, StreamKey* place);
  BoardReader boards() const;
  void listen();

  Settings settings_;
  std::atomic<double> timeout_seconds_;  // relaxed: set by callers, read by the thread that waits
  std::string name_;
  JoinResult joined_;
  Oversubscription oversubscription_;  // held for the communicators that this process makes later
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<DeviceSide> device_;  // nullptr: the process has no device
  Executor* active_;                    // the running operation's: one of the two
  CallBoard& board_;                    // the executor's
  Launch& launch_;                      // the executor's
  Rank rank_;
  int ranks_;
  bool network_;           // some ranks are reached by tcp
  std::vector<Rank> far_;  // those: their memory is not mapped here
  PlanCache plans_;

  TurnQueue turns_;
  Call call_;
  Repeat repeat_;  // of call_ and launch_
  UserOperations operations_;
  MemoryRanges registered_;
  // Of the running call, where it has any.
  RaggedTiling ragged_;
  UserReduceFunction fold_;
  std::vector<std::byte> scaled_;  // inputs multiplied by a scalar

  // The running operation's wait; written by its thread only.
  double operation_timeout_ = 0;  // seconds, as it was when the operation began; 0: for ever
  bool waiting_ = false;
  bool warned_ = false;
  Rank waited_rank_ = kNoRank;
  std::uint64_t waited_progress_ = 0;
  Clock::time_point waiting_since_{};
  Rank suspect_ = kNoRank;
  std::uint64_t suspect_progress_ = 0;
  Clock::time_point suspect_since_{};
  Rank finished_peer_ = kNoRank;
  std::uint64_t finished_progress_ = 0;
  std::uint64_t finished_sequence_ = 0;
  Clock::time_point finished_since_{};
  Clock::time_point asked_at_{};  // the far ranks, for their boards

  // Of kernels on CUDA streams, which the progress thread and Finalize watch.
  Mutex lost_mutex_;
  Rank lost_ TUTTI_GUARDED_BY(lost_mutex_) = kNoRank;
  std::uint64_t lost_waits_ TUTTI_GUARDED_BY(lost_mutex_) = 0;
  Clock::time_point lost_since_ TUTTI_GUARDED_BY(lost_mutex_){};

  FailureState failure_;
  bool finalized_ = false;
};

}  // namespace tutti
