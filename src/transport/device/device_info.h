// What ranks know of each other's devices, and whether the kernels of all ranks may wait for one another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "device/device_driver.h"

namespace tutti {

/// What a rank tells all others of its device in the join.
struct DeviceInfo {
  DeviceDriver::Identity identity;
  DeviceDriver::Limits limits;

  /// Describes a device of this process.
  static Status of(DeviceDriver& driver, int device, DeviceInfo* card);
  /// The bytes that are sent to the other ranks; never empty.
  std::string encode() const;
  /// Fails with kRemoteError if a peer sent what encode() cannot have made.
  static Status decode(std::string_view text, DeviceInfo* card);

  bool same_device(const DeviceInfo& other) const { return identity.uuid == other.identity.uuid; }
};

/// The devices of ranks whose kernels are to wait for one another; equal on all of them.
struct DevicePeers {
  std::vector<DeviceInfo> cards;  ///< by rank
  std::vector<int> processes;     ///< by rank: equal numbers share a process
  std::vector<int> numbers = {};  ///< by rank: its number in the communicator; if empty, they are the same

  int ranks() const { return static_cast<int>(cards.size()); }
  int number(std::size_t rank) const { return numbers.empty() ? static_cast<int>(rank) : numbers[rank]; }
  bool same_process(std::size_t a, std::size_t b) const { return processes[a] == processes[b]; }
  bool single_process() const;
  /// Whether some ranks use different devices.
  bool many_devices() const;
  /// How many ranks use the rank's device, itself included. `in_process`: only ranks of its process are counted.
  int sharing(std::size_t rank, bool in_process) const;
  /// How many thread blocks each rank may have at most. Blocks of all ranks wait for one another, so all of them must
  /// be resident together, even while the caller's own work runs.
  std::uint32_t most_blocks() const;

  /// Fails with kUnsupported if kernels of these ranks would not all run at the same time, so that none may wait for
  /// another. It uses only what all ranks know, so the result is the same on all.
  Status check_concurrency() const;
};

}  // namespace tutti
