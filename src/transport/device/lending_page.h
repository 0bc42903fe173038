// A page of a rank's shared memory that tells ranks of other processes how to read the device memory that it lends.
#pragma once

#include <atomic>
#include <cstdint>

#include "device/device_driver.h"
#include "transport/device/device_link.h"

namespace tutti {

/// The last page of a segment, zero-initialised. Only the segment's rank writes it. See docs/design/device.md.
struct LendingPage {
  /// An allocation that all may read. Its handle and address change only when all have answered that they know that it
  /// is not lent any more.
  struct Region {
    /// Grows by one each time, and is odd while the allocation is lent. Release, pairs with DeviceBorrower::take().
    std::atomic<std::uint32_t> state;
    std::atomic<std::uint64_t> address;  ///< for ranks of the owner's process
    DeviceDriver::Handle handle;         ///< for ranks of other processes
  };
  /// This bit of an answer says that the memory could not be mapped.
  static constexpr std::uint32_t kRefused = std::uint32_t{1} << 31;

  std::atomic<std::uint64_t>
      changes;  ///< how often a state has changed; release, pairs with DeviceBorrower::map_published()
  Region regions[kLentRegions];
  /// answers[r][i] is the state of rank r's region i that this page's owner has dealt with. If it is odd, the owner's
  /// kernels know the address. Release, pairs with DeviceLender::have_all_answered().
  std::atomic<std::uint32_t> answers[kMaxDeviceRanks][kLentRegions];
  /// All that this page's owner had mapped of rank r's region i before its state closed[r][i] is closed. Release, pairs
  /// with DeviceLender::have_all_closed().
  std::atomic<std::uint32_t> closed[kMaxDeviceRanks][kLentRegions];
};
static_assert(sizeof(LendingPage) <= 4096);

}  // namespace tutti
