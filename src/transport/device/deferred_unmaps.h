// Mappings of other processes' memory that nobody here reads any more. Unmapping may wait for all kernels of the
// device, and some of those may wait for the thread that unmaps. So mappings are collected here and unmapped in calls
// that may block.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/mutex.h"
#include "device/device_driver.h"
#include "transport/shm/segment.h"

namespace tutti {

/// One per process. Thread-safe.
class DeferredUnmaps {
 public:
  struct Item {
    DeviceDriver* driver;
    int device;
    void* memory;                      ///< nullptr if nothing was mapped
    std::shared_ptr<Segment> segment;  ///< of the rank that had it mapped; `word` lies there
    std::atomic<std::uint32_t>* word;  ///< becomes `value` once this and all earlier items of the word are closed
    std::uint32_t value;
  };
  static DeferredUnmaps& get();

  void add(Item item);
  /// Closes the mappings of a device, in the order in which they came, unless another thread is doing so or this is no
  /// quiet moment. May wait for the device's kernels.
  void sweep(int device);
  /// Closes the mappings of the ranks of these segments, whose communicator ends; waits for no other thread.
  void sweep(const std::vector<std::shared_ptr<Segment>>& ended);
  /// Grows whenever something has been closed.
  std::uint64_t sweeps() const { return sweeps_.load(); }
  void count_sweep() { sweeps_.fetch_add(1); }

 private:
  template <class Match>
  std::vector<Item> take(const Match& match);
  void close(const std::vector<Item>& items);

  Mutex sweeping_;  // held while kernels are waited for
  Mutex mutex_;     // never held while anything is waited for
  std::vector<Item> items_ TUTTI_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> sweeps_{0};
};

}  // namespace tutti
