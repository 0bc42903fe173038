// A device as the ranks of other processes know it, and whether kernels of all ranks may wait for one another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "device/device_driver.h"

namespace tutti {

/// What a rank tells all others in the join.
struct DeviceInfo {
  DeviceDriver::Identity identity;
  DeviceDriver::Limits limits;

  /// Of this process's device.
  static Status of(DeviceDriver& driver, int device, DeviceInfo* card);
  /// As it travels; never empty.
  std::string encode() const;
  /// kRemoteError: a peer sent something else.
  static Status decode(std::string_view text, DeviceInfo* card);

  bool same_device(const DeviceInfo& other) const { return identity.uuid == other.identity.uuid; }
};

/// The devices of ranks whose kernels are to wait for one another; equal on all of them.
struct DevicePeers {
  std::vector<DeviceInfo> cards;  ///< by rank
  std::vector<int> processes;     ///< by rank: equal numbers share a process
  std::vector<int> numbers = {};  ///< by rank: what the communicator calls it; empty: the same

  int ranks() const { return static_cast<int>(cards.size()); }
  int number(std::size_t rank) const { return numbers.empty() ? static_cast<int>(rank) : numbers[rank]; }
  bool same_process(std::size_t a, std::size_t b) const { return processes[a] == processes[b]; }
  bool single_process() const;
  /// Whether some ranks use different devices.
  bool many_devices() const;
  /// How many ranks use the rank's device; of its process only, or all.
  int sharing(std::size_t rank, bool in_process) const;

  /// kUnsupported: kernels of these ranks would not all run at the same time, and none may wait for another. Decided
  /// from what all ranks know, so alike on all.
  Status check_concurrency() const;
};

}  // namespace tutti
