// The communicator is one rank's view of a group of ranks. It owns everything below it and passes each call to what
// serves it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/call/arguments.h"
#include "comm/call/call_check.h"
#include "comm/call_driver.h"
#include "comm/descendants.h"
#include "comm/device/device_side.h"
#include "comm/device_calls.h"
#include "comm/failure/failure_handler.h"
#include "comm/failure/kernel_monitor.h"
#include "comm/failure/peers.h"
#include "comm/failure/wait_judge.h"
#include "comm/join/join.h"
#include "comm/join/oversubscription.h"
#include "comm/link_service.h"
#include "comm/membership/membership.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/settings.h"
#include "core/status.h"
#include "executor/executor.h"

namespace tutti {

/// One thread at a time calls the operations below (the C API's rule). failures(), async_error() and the membership's
/// listener may be called at any time. Operations take a ticket when they are called and run when it is their turn.
class Communicator final {
 public:
  Communicator(const Settings& settings, std::string name, JoinResult&& joined, std::unique_ptr<Executor>&& executor,
               std::shared_ptr<const AutomaticChoice> choice, Oversubscription oversubscription);
  ~Communicator();
  /// Sets what serves calls on device memory. It is called before the first operation.
  void adopt(std::unique_ptr<DeviceSide> device) { device_calls_.adopt(std::move(device)); }
  /// Called once, before the first operation. From here on it hears of causes, and others can ask for its board.
  void start_listening();

  Rank rank() const { return rank_; }
  int ranks() const { return ranks_; }
  /// The settings at the join, with the timeout as it is now.
  Settings settings() const;
  LogSource log_source() const { return LogSource{rank_, name_}; }
  const Machine& machine() const { return call_driver_.binder().plans().machine(); }
  /// Which ranks share memory; nullptr with TUTTI_TRANSPORT=inproc. Lives as long as this object.
  const HostMap* hosts() const { return call_driver_.binder().plans().hosts(); }
  Membership& membership() { return *membership_; }
  /// How many ranks share a core of this host, those of the process's other communicators included.
  int ranks_per_core() const { return oversubscription_.ranks_per_core(); }
  /// What the other ranks do.
  const Peers& peers() const { return peers_; }
  /// This rank's memory that peers map; nullptr if there is none.
  const Segment* segment() const { return segment_.get(); }

  /// The way in which it fails for good. Any thread.
  FailureHandler& failures() { return failures_; }
  /// Decides when a wait of the running operation cannot end well.
  WaitJudge& judge() { return judge_; }
  /// Watches the kernels of calls on CUDA streams.
  KernelMonitor& kernels() { return kernels_; }
  /// Runs the operations.
  CallDriver& call_driver() { return call_driver_; }
  /// The order of operations.
  TurnQueue& turns() { return call_driver_.turns(); }
  /// Runs calls where there is a device.
  DeviceCalls& device_calls() { return device_calls_; }
  /// The reduction operations made for this communicator. For the API's thread.
  UserOperations& operations() { return call_check_.operations(); }

  /// Completes and checks the arguments and runs the collective to its end on the calling thread, after all earlier
  /// operations.
  Status run(CallArguments* arguments);
  /// Runs sends and receives likewise; they proceed together.
  Status run(std::span<Transfer> transfers);

  // A call that another thread runs is checked when it is made and takes its ticket in the caller's order. In its turn
  // come begin() and then the other stages of CallDriver.

  /// Completes the arguments of a call and checks them; finds out where its buffers are.
  Status check(CallArguments* arguments) const;
  Status check(const Transfer& transfer) const;
  /// Does what CallDriver::begin() does, on whichever memory. `on_cuda_stream`: a CUDA stream orders the call already.
  Status begin(const CallArguments& arguments, bool* nothing_to_run, bool on_cuda_stream);
  Status begin(std::span<Transfer> transfers);

  /// Knows what was split from it. Any thread.
  Descendants& descendants() { return descendants_; }
  /// If it was made by a shrink: the ranks that its ranks had before, in its order. Empty if not.
  const std::vector<Rank>& members() const { return members_; }
  void set_members(std::vector<Rank> members) { members_ = std::move(members); }
  /// Whether this rank has gone on with a shrunk one because this one failed. For the API's thread.
  bool has_successor() const { return has_successor_; }
  void note_shrink() { has_successor_ = failures_.failed(); }

  /// Names the ids that this rank made for grows. For the API's thread.
  std::vector<KeyId>& grow_ids() { return grow_ids_; }

  /// Memory of the caller's that is often used, so that peers may read it directly if they can. For the API's thread.
  MemoryRanges& registered() { return call_driver_.binder().registered(); }
  /// Returns false if there is no such registration.
  bool deregister(std::uint64_t handle);

  /// Returns the first final failure, also one that is known from peers although no call has met it yet.
  Status async_error();
  Status finalize();
  bool finalized() const { return call_driver_.closed(); }

 private:
  void on_membership_change();
  void start_link_service();
  void stop_link_service();
  void wake();

  Settings settings_;
  std::string name_;
  std::unique_ptr<Membership> membership_;
  std::shared_ptr<Segment> segment_;
  std::unique_ptr<TcpStreamSource> tcp_streams_;  // uses the membership's hub
  Oversubscription oversubscription_;             // kept for the communicators that this process makes later
  std::unique_ptr<Executor> executor_;
  Rank rank_;
  int ranks_;
  Descendants descendants_;
  std::vector<Rank> members_;
  bool has_successor_ = false;
  std::vector<KeyId> grow_ids_;

  Peers peers_;
  FailureHandler failures_;
  CallCheck call_check_;
  CallDriver call_driver_;  // it has the Launch
  WaitJudge judge_;         // it judges the operation that runs
  KernelMonitor kernels_;
  DeviceCalls device_calls_;
  std::shared_ptr<LinkService> link_service_;  // nullptr if there are no connections
};

}  // namespace tutti
