// The device side of a communicator: whether calls on device memory are offered, and what serves them.
#pragma once

#include <memory>

#include "collectives/plan_cache.h"
#include "comm/arguments.h"
#include "comm/join.h"
#include "core/log.h"
#include "core/memory.h"
#include "executor/device_executor.h"

namespace tutti {

/// What a rank asks for.
struct DeviceRequest {
  DeviceDriver* driver = nullptr;
  int device = -1;  ///< -1: none
  bool deterministic = false;
  std::string algorithm;
  Bytes tile{0};
  Deadline deadline = Deadline::never();
  LogSource source;
};

/// One a communicator where the process has a driver. Threads: as the communicator's.
class DeviceSide {
 public:
  /// Meets the other ranks of the communicator, who do the same. Never fails for want of a device: why_not() says so
  /// then, on all ranks alike. `host` outlives it.
  static std::unique_ptr<DeviceSide> open(const DeviceRequest& request, const JoinResult& joined, Executor& host);

  /// nullptr: calls on device memory are not offered.
  DeviceExecutor* executor() { return executor_.get(); }
  PlanCache& plans() { return *plans_; }
  const Status& why_not() const { return why_not_; }

  /// Says whether the call's buffers are device memory; refuses what is mixed, on another device, or not offered there.
  Status locate(CallArguments* arguments, int rank, int ranks) const;
  Status refuse(const Transfer& transfer) const;

 private:
  explicit DeviceSide(DeviceDriver& driver) : driver_(driver) {}
  Status set_up(const DeviceRequest& request, const JoinResult& joined, Executor& host);
  Status check_offer(const CallArguments& arguments) const;
  Status check_place(const char* buffer, int rank, DeviceDriver::Place place) const;

  DeviceDriver& driver_;
  std::unique_ptr<DeviceExecutor> executor_;
  std::unique_ptr<PlanCache> plans_;
  Status why_not_;
};

/// What tuttiMemAllocDevice gave, one a process.
MemoryRanges& device_allocations();
/// kUnsupported: there is no device; kInvalidArgument: not this one.
Status allocate_on_device(Bytes bytes, int device, void** memory);
/// False: allocate_on_device did not give this.
bool is_from_device(const void* memory);
Status free_on_device(void* memory);

}  // namespace tutti
