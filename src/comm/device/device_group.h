// Ranks whose kernels reach one another's memory: all of a communicator, or those of one host. Set up in the join.
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

/// What a rank asks for.
struct DeviceRequest {
  int device = -1;      ///< -1: none
  bool forced = false;  ///< kernels and peer memory or nothing
  std::string algorithm;
  Bytes tile{0};
  std::optional<Bytes> two_levels_from;  ///< see Settings
  MulticastMode multicast = MulticastMode::kAuto;
  Deadline deadline = Deadline::never();
  LogSource source;
  Machine machine;  ///< of the ranks' links on the host
};

/// One rank's part of it. Threads: as the communicator's.
class DeviceGroup {
 public:
  /// `members`: communicator ranks in order, this one among them. `host` and the membership outlive it.
  DeviceGroup(const DeviceRequest& request, const JoinResult& joined, std::vector<int> members, Executor& host);
  /// A dead rank's process maps nothing any more: nobody need wait for it.
  ~DeviceGroup();
  DeviceGroup(const DeviceGroup&) = delete;
  DeviceGroup& operator=(const DeviceGroup&) = delete;

  /// Meets the other members, who do the same. Not ok: they cannot, for the same reason on all of them, or `ranks` has
  /// failed; then links and memory are gone.
  Status open(const JoinResult& joined, RankExchange& ranks, WaitMonitor& monitor);
  DeviceExecutor& executor() { return *executor_; }
  /// Kernels of other processes use this rank's memory.
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
  const Rank index_;  // this rank's place among them
  std::shared_ptr<DeviceFabric> fabric_;
  bool spans_processes_ = false;
  std::unique_ptr<DeviceExecutor> executor_;
};

}  // namespace tutti
