// Other processes' memory that nobody here reads any more. To close a mapping may wait for all kernels of the device,
// among them such as wait for the thread that closes; so it is done where callers expect to wait.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "transport/device_driver.h"
#include "transport/segment.h"

namespace tutti {

/// One a process. Thread-safe.
class DeviceClosings {
 public:
  struct Item {
    DeviceDriver* driver;
    int device;
    void* memory;                      ///< nullptr: nothing was mapped
    std::shared_ptr<Segment> segment;  ///< with the word
    std::atomic<std::uint32_t>* word;  ///< is `value` once this and all earlier ones are closed
    std::uint32_t value;
  };
  static DeviceClosings& get();

  void add(Item item);
  /// Closes all that is there, in the order in which it came. May wait for running kernels.
  void sweep();
  /// Grows with each sweep that closed something; `waiting`: whether something waits for the next one.
  std::uint64_t sweeps(bool* waiting) const;

 private:
  std::mutex sweeping_;
  mutable std::mutex mutex_;  // guards what follows; never held while anything waits
  std::vector<Item> items_;
  bool closing_ = false;
  std::uint64_t sweeps_ = 0;
};

}  // namespace tutti
