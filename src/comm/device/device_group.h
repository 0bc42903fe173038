// A device group is ranks whose kernels reach one another's memory: all of a communicator, or those of one host. It is
// set up in the join.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/join/join.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/machine.h"
#include "core/settings.h"
#include "core/wait_monitor.h"
#include "executor/device/device_executor.h"

namespace tutti {

/// A rank's wishes for its device, which come from its settings and from the call that makes the communicator.
struct DeviceRequest {
  int device = -1;      ///< -1 if it uses none
  bool forced = false;  ///< fail rather than use host memory instead of kernels and peer memory
  std::string algorithm;
  Bytes tile{0};
  std::optional<Bytes> two_levels_from;  ///< see Settings
  MulticastMode multicast = MulticastMode::kAuto;
  Deadline deadline = Deadline::never();
  LogSource source;
  Machine machine;  ///< what is known of the ranks and their links on the host
};

/// One rank's part of a device group. It may be used by the threads that may use the communicator.
class DeviceGroup {
 public:
  /// `members` are ranks of the communicator in order, this one among them. `host` and the membership outlive it.
  DeviceGroup(const DeviceRequest& request, const JoinResult& joined, std::vector<int> members, Executor& host);
  /// It does not wait for dead ranks, whose processes map nothing any more.
  ~DeviceGroup();
  DeviceGroup(const DeviceGroup&) = delete;
  DeviceGroup& operator=(const DeviceGroup&) = delete;

  /// Connects the devices with those of the other members, which call this, too. If it fails, either the devices cannot
  /// be connected, for the same reason on all members, or `ranks` has failed. Then links and memory are gone.
  Status open(const JoinResult& joined, RankExchange& ranks, WaitMonitor& monitor);
  DeviceExecutor& executor() { return *executor_; }
  /// Whether kernels of other processes use this rank's memory.
  bool spans_processes() const { return spans_processes_; }

 private:
  Status find_peers(const JoinResult& joined, DevicePeers* peers) const;
  Status check_memory(const JoinResult& joined) const;
  Status set_up(const JoinResult& joined, RankExchange& ranks, WaitMonitor& monitor);
  Status connect(const JoinResult& joined, const DevicePeers& peers, MulticastMode multicast, RankExchange& ranks,
                 WaitMonitor& monitor);
  Status check_multicast(RankExchange& ranks, WaitMonitor& monitor);
  std::shared_ptr<DeviceFabric> make_fabric(const JoinResult& joined, const DevicePeers& peers,
                                            std::shared_ptr<BlockBudget> budget) const;
  std::uint64_t key() const;
  Status log_refusal(const Status& why) const;
  bool is_first() const { return index_ == Rank{0}; }
  int ranks() const { return static_cast<int>(members_.size()); }

  const DeviceRequest& request_;
  Membership& membership_;
  Executor& host_;
  const std::vector<int> members_;
  const Rank index_;  // this rank's place among the members
  std::shared_ptr<DeviceFabric> fabric_;
  bool spans_processes_ = false;
  std::unique_ptr<DeviceExecutor> executor_;
};

}  // namespace tutti
