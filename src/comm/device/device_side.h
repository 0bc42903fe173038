// The device side of a communicator decides whether calls on device memory are offered, and has what serves them.
#pragma once

#include <atomic>
#include <memory>

#include "collectives/choice/plan_cache.h"
#include "collectives/choice/two_level.h"
#include "comm/call/arguments.h"
#include "comm/device/device_group.h"
#include "comm/device/host_exchange.h"
#include "comm/device/stream_deadlock_check.h"
#include "core/memory.h"
#include "executor/device/staged_executor.h"

namespace tutti {

/// There is one for each communicator if the process may have a device, even if that is not used. It may be used by the
/// threads that may use the communicator.
class DeviceSide {
 public:
  /// Connects the rank's device with those of the other ranks, which call this, too. The lack of a device is no
  /// failure; then why_not() gives the reason, on all ranks alike. It fails if a rank died or did not come, and the
  /// join with it. `host` and the membership outlive it.
  static Status open(const DeviceRequest& request, const JoinResult& joined, Executor& host,
                     std::unique_ptr<DeviceSide>* side);

  /// nullptr if kernels that connect all ranks are not offered.
  DeviceExecutor* executor() { return group_ == nullptr ? nullptr : &group_->executor(); }
  /// Whether kernels that connect the ranks of each host do a part of large calls.
  bool has_two_levels() const { return levels_ != nullptr; }
  PlanCache& plans() { return *plans_; }
  const Status& why_not() const { return why_not_; }
  /// Whether kernels of other processes use this rank's memory.
  bool spans_processes() const { return group_ != nullptr && group_->spans_processes(); }
  /// Ends the waits of this rank's kernels. Any thread.
  void stop_kernels();
  /// How much device memory links and scratch take.
  Bytes device_memory() const;

  /// The executor of calls on device memory that no kernel runs; nullptr if there was no such call yet. Any thread.
  StagedExecutor* staged() const { return opened_.load(std::memory_order_acquire); }
  /// Makes that executor, before the first such call. `device` is that of the call's buffers; -1 means the rank's.
  /// Returns kUnsupported if the settings allow peer memory only.
  Status open_staging(int device);
  Bytes staging_memory() const { return staged() == nullptr ? Bytes{0} : staged()->memory(); }
  /// The rank's device; -1 if it has none.
  int device() const { return request_.device; }
  /// The device that calls on CUDA streams are for; -1 if it may be any.
  int device_of_calls() const { return group_ != nullptr ? group_->executor().device() : request_.device; }

  /// It is shared by the communicator's ranks in this process.
  StreamDeadlockCheck& deadlock_check() { return *deadlock_check_; }
  /// Checks the place of a call without a stream, which comes after the default stream's work. Returns kInvalidUsage if
  /// it would come after a call that waits for it.
  Status follow_default_stream(const CallArguments& arguments, std::uint64_t number);

  /// Finds out whether the call's buffers are device memory, and what serves the call. Refuses buffers of which one is
  /// host and one device memory, and buffers on another device.
  Status locate(CallArguments* arguments, int rank);
  /// Whether this rank's part of the call has any buffer.
  static bool has_memory(const CallArguments& arguments, int rank);
  /// Refuses transfers of device memory where they are not offered.
  Status locate(const Transfer& transfer);
  bool any_on_device(std::span<const Transfer> transfers) const;
  /// Tells the staged executor how a call at two levels runs.
  void bind_levels(const CallArguments& arguments, StagedBuffers* buffers);
  /// Describes what such a call with so many bytes a block would run; empty if it would not be at two levels.
  std::string describe_levels(Collective collective, Bytes block) const;
  /// Makes the launch multiply its inputs by the operation's scalar.
  void bind_scalar(const UserOperation& operation, Launch* launch) const;
  /// Whether a call on host memory may be repeated with these buffers as it is, because none is device memory and no
  /// call in a graph has failed meanwhile.
  bool is_on_host(const CallArguments& arguments) const;
  /// The driver. Call it only if the process has begun to use it, as it has if there is a device, device memory or a
  /// CUDA stream.
  DeviceDriver& driver() const { return *device_driver(); }

 private:
  DeviceSide(const DeviceRequest& request, Membership& membership, Executor& host)
      : request_(request), membership_(membership), host_(host) {}
  Status open_levels(const JoinResult& joined, HostExchange& ranks);
  Status open_stage(RankExchange& host);
  Status open_early(const JoinResult& joined, HostExchange& ranks);
  Status make_staging(int device);
  bool runs_levels(const CallArguments& arguments) const;
  bool moves_enough(Collective collective, Bytes block) const;
  Status check_scalar(const CallArguments& arguments) const;
  static DeviceDriver::Place place_of(const void* memory);
  static DeviceDriver::Place place_of(const void* memory, DeviceRange* whole);
  static bool is_device_memory(const void* buffer);
  Status check_offer(const CallArguments& arguments) const;
  Status check_place(const char* buffer, int rank, DeviceDriver::Place place) const;
  Status check_places(const CallArguments& arguments, int rank, DeviceDriver::Place from, DeviceDriver::Place to) const;

  const DeviceRequest request_;
  Membership& membership_;
  Executor& host_;
  std::shared_ptr<StreamDeadlockCheck> deadlock_check_;
  std::unique_ptr<DeviceGroup> group_;       // the group of all ranks; nullptr if there is none
  std::unique_ptr<DeviceGroup> host_group_;  // the group of the host's ranks, if there are calls at two levels
  std::unique_ptr<TwoLevelStage> stage_;     // with host_group_
  std::unique_ptr<TwoLevelPlans> levels_;    // with host_group_
  std::unique_ptr<StagedExecutor> staged_;
  std::atomic<StagedExecutor*> opened_{nullptr};  // staged_; release by the API's thread, pairs with staged()
  std::unique_ptr<PlanCache> plans_;
  Status why_not_;
};

}  // namespace tutti
