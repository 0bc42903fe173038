// The device side of a communicator whose ranks live in one process: which device each rank uses, its arena, and
// whether all reach one another. Made at join; afterwards only read.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/status.h"
#include "transport/device_driver.h"
#include "transport/device_link.h"

namespace tutti {

/// What the ranks of a communicator do together in steps: each brings a word and waits until all have brought theirs.
class DeviceFabric {
 public:
  explicit DeviceFabric(int ranks) : ranks_(ranks), words_(static_cast<std::size_t>(ranks)) {}
  ~DeviceFabric();
  DeviceFabric(const DeviceFabric&) = delete;
  DeviceFabric& operator=(const DeviceFabric&) = delete;

  /// Blocks until every rank has come this far; `words` are then those of all, by rank. kTimeout at the deadline.
  Status exchange(Rank rank, std::uint64_t mine, Deadline deadline, std::vector<std::uint64_t>* words);
  /// Memory that peers' kernels may use for as long as any rank is there.
  void keep(DeviceDriver& driver, int device, void* memory);

 private:
  struct Kept {
    DeviceDriver* driver;
    int device;
    void* memory;
  };
  const int ranks_;
  std::vector<Kept> kept_;  // guarded by mutex_
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::uint64_t> words_;
  std::vector<std::uint64_t> last_;  // of the round before, until the next one ends
  int arrived_ = 0;
  std::uint64_t round_ = 0;
};

/// One rank's part of it: its arena, its stream and its report.
class DeviceSeat {
 public:
  DeviceSeat(std::shared_ptr<DeviceFabric> fabric, DeviceDriver& driver, int device, Rank rank, int ranks)
      : fabric_(std::move(fabric)), driver_(driver), device_(device), rank_(rank), ranks_(ranks) {}
  ~DeviceSeat();
  DeviceSeat(const DeviceSeat&) = delete;
  DeviceSeat& operator=(const DeviceSeat&) = delete;

  /// Meets the other ranks: all have seats of their own devices then, or none has and the status, which is the same on
  /// all but for the wording, says why. Blocks for as long as it takes to allocate.
  Status open(Bytes slot, Deadline deadline);
  /// The others' verdict on what this rank found: not ok if any rank's is not.
  Status agree(const Status& mine, Deadline deadline);

  DeviceDriver& driver() const { return driver_; }
  int device() const { return device_; }
  const DeviceLinks& links() const { return links_; }
  DeviceDriver::Stream stream() const { return stream_; }
  Bytes memory() const { return Bytes{links_.geometry.arena_bytes()}; }

 private:
  Status make_geometry(const std::vector<std::uint64_t>& devices, Bytes slot);
  Status allocate(void** arena);
  Status reach_peers(const std::vector<std::uint64_t>& devices);

  const std::shared_ptr<DeviceFabric> fabric_;
  DeviceDriver& driver_;
  const int device_;
  const Rank rank_;
  const int ranks_;
  DeviceLinks links_;
  DeviceDriver::Stream stream_ = nullptr;
};

}  // namespace tutti
