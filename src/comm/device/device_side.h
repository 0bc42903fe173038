// The device side of a communicator: whether calls on device memory are offered, and what serves them.
#pragma once

#include <atomic>
#include <memory>

#include "collectives/plan_cache.h"
#include "collectives/two_level.h"
#include "comm/call/arguments.h"
#include "comm/device/device_group.h"
#include "comm/device/host_exchange.h"
#include "comm/device/stream_deadlock_check.h"
#include "core/memory.h"
#include "executor/device/staged_executor.h"

namespace tutti {

/// One per communicator where the process may have a device, used or not. Threads: as the communicator's.
class DeviceSide {
 public:
  /// Meets the other ranks of the communicator, who do the same. Never fails for want of a device: why_not() says so
  /// then, on all ranks alike. Not ok: a rank died or did not come, and the join has failed. `host` and the membership
  /// outlive it.
  static Status open(const DeviceRequest& request, const JoinResult& joined, Executor& host,
                     std::unique_ptr<DeviceSide>* side);

  /// nullptr: kernels of all ranks are not offered.
  DeviceExecutor* executor() { return group_ == nullptr ? nullptr : &group_->executor(); }
  /// Kernels of the ranks of each host do their part of large calls.
  bool has_two_levels() const { return levels_ != nullptr; }
  PlanCache& plans() { return *plans_; }
  const Status& why_not() const { return why_not_; }
  /// Kernels of other processes use this rank's memory.
  bool spans_processes() const { return group_ != nullptr && group_->spans_processes(); }
  /// No kernel of this rank goes on waiting. Any thread.
  void stop_kernels();
  /// For links and scratch.
  Bytes device_memory() const;

  /// Of calls on device memory that no kernel runs; nullptr: there was none yet. Any thread.
  StagedExecutor* staged() const { return opened_.load(std::memory_order_acquire); }
  /// Before the first of them; `device`: that of its buffers, -1: the rank's. kUnsupported: the rank was told to use
  /// peer memory only.
  Status open_staging(int device);
  Bytes staging_memory() const { return staged() == nullptr ? Bytes{0} : staged()->memory(); }
  /// The rank's device; -1: it has none.
  int device() const { return request_.device; }
  /// What calls on CUDA streams are for; -1: any.
  int device_of_calls() const { return group_ != nullptr ? group_->executor().device() : request_.device; }

  /// Of the ranks of this process.
  StreamDeadlockCheck& deadlock_check() { return *deadlock_check_; }
  /// Enters a call without a stream. kInvalidUsage: it would stand after a call that waits for it.
  Status follow_default_stream(const CallArguments& arguments, std::uint64_t number);

  /// Says whether the call's buffers are device memory, and what serves them; refuses what is mixed or on another
  /// device.
  Status locate(CallArguments* arguments, int rank);
  /// Whether this rank's part of the call has any buffer.
  static bool has_memory(const CallArguments& arguments, int rank);
  /// Refuses transfers of device memory where they are not offered.
  Status locate(const Transfer& transfer);
  bool any_on_device(std::span<const Transfer> transfers) const;
  /// How a call at two levels runs, for the staged executor.
  void bind_levels(const CallArguments& arguments, StagedBuffers* buffers);
  /// What such a call of so many bytes a block would run; empty: it would not be at two levels.
  std::string describe_levels(Collective collective, Bytes block) const;
  /// The launch's inputs are to be multiplied by the operation's scalar.
  void bind_scalar(const UserOperation& operation, Launch* launch) const;
  /// Whether a call on host memory may be repeated with these buffers as it is: none is device memory, and no graph has
  /// failed meanwhile.
  bool is_on_host(const CallArguments& arguments) const;
  /// Where the process has begun to use it: who has a device, device memory or a CUDA stream has.
  DeviceDriver& driver() const { return *device_driver(); }

 private:
  DeviceSide(const DeviceRequest& request, Membership& membership, Executor& host)
      : request_(request), membership_(membership), host_(host) {}
  Status open_levels(const JoinResult& joined, HostExchange& ranks);
  Status open_stage(RankExchange& host);
  Status make_staging(int device);
  bool runs_levels(const CallArguments& arguments) const;
  bool moves_enough(Collective collective, Bytes block) const;
  Status check_scalar(const CallArguments& arguments) const;
  static DeviceDriver::Place place_of(const void* memory);
  static bool is_device_memory(const void* buffer);
  Status check_offer(const CallArguments& arguments) const;
  Status check_place(const char* buffer, int rank, DeviceDriver::Place place) const;
  Status check_places(const CallArguments& arguments, int rank, DeviceDriver::Place from, DeviceDriver::Place to) const;

  const DeviceRequest request_;
  Membership& membership_;
  Executor& host_;
  std::shared_ptr<StreamDeadlockCheck> deadlock_check_;
  std::unique_ptr<DeviceGroup> group_;       // of all ranks
  std::unique_ptr<DeviceGroup> host_group_;  // of the host's, where they have calls at two levels
  std::unique_ptr<TwoLevelStage> stage_;     // with host_group_
  std::unique_ptr<TwoLevelPlans> levels_;    // with host_group_
  std::unique_ptr<StagedExecutor> staged_;
  std::atomic<StagedExecutor*> opened_{nullptr};  // staged_: release by the API's thread, pairs with staged()
  std::unique_ptr<PlanCache> plans_;
  Status why_not_;
};

}  // namespace tutti
