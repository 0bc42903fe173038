// What the ranks of other processes need to know to read device memory that a rank lends: part of its shared memory.
#pragma once

#include <atomic>
#include <cstdint>

#include "device/device_driver.h"
#include "transport/device/device_link.h"

namespace tutti {

/// The last page of a segment, zero-initialised; each word is written by its owner only. docs/design/device.md.
struct LendingPage {
  /// An allocation that all may read. The fields change only when all have answered that it is not lent any more.
  struct Region {
    std::atomic<std::uint32_t> state;    ///< grows by one: odd while lent; release, pairs with DeviceBorrower::take()
    std::atomic<std::uint64_t> address;  ///< for ranks of the owner's process
    DeviceDriver::Handle handle;         ///< for the others
  };
  /// In an answer: the memory could not be mapped.
  static constexpr std::uint32_t kRefused = std::uint32_t{1} << 31;

  std::atomic<std::uint64_t> changes;  ///< of states; release, pairs with DeviceBorrower::map_published()
  Region regions[kLentRegions];
  /// To each rank's regions: the state that this page's owner has dealt with; release, pairs with
  /// DeviceLender::have_all_answered(). An odd one: its kernels know the address.
  std::atomic<std::uint32_t> answers[kMaxDeviceRanks][kLentRegions];
  /// The last state before which it has closed all that it had mapped of the region; release, pairs with
  /// DeviceLender::settle().
  std::atomic<std::uint32_t> closed[kMaxDeviceRanks][kLentRegions];
};
static_assert(sizeof(LendingPage) <= 4096);

}  // namespace tutti
