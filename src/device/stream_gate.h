// Calls on a CUDA stream that the host carries out: the stream waits on a word in host memory until it is told.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/mutex.h"
#include "device/device_driver.h"
#include "device/stream_point.h"

namespace tutti {

/// Words that streams wait on, each for one call at a time. They grow, so that a word may serve the next call while a
/// stream of the call before has not looked yet; they stay until all streams have looked. Thread-safe.
class GateWords {
 public:
  static constexpr std::size_t kWords = 4096;

  explicit GateWords(DeviceDriver& driver) : driver_(driver) {}
  ~GateWords();
  GateWords(const GateWords&) = delete;
  GateWords& operator=(const GateWords&) = delete;
  Status open();

 private:
  friend class StreamGate;
  /// A word that no call has; blocks while all have one.
  std::size_t take();
  void give_back(std::size_t index, std::unique_ptr<StreamPoint> after);

  DeviceDriver& driver_;
  std::uint64_t* words_ = nullptr;
  Mutex mutex_;
  ConditionVariable given_back_;
  std::vector<std::size_t> free_ TUTTI_GUARDED_BY(mutex_);
  /// Words of waits that streams may not have come to yet.
  std::vector<std::unique_ptr<StreamPoint>> looks_ TUTTI_GUARDED_BY(mutex_);
};

/// Where a stream waits for one call of the host's. It goes on when this is gone, at the latest.
class StreamGate {
 public:
  /// Puts the wait into the stream.
  static Status hold(std::shared_ptr<GateWords> words, DeviceDriver& driver, int device, DeviceDriver::Stream stream,
                     std::shared_ptr<StreamGate>* gate);
  ~StreamGate();
  StreamGate(const StreamGate&) = delete;
  StreamGate& operator=(const StreamGate&) = delete;

  /// What stands before the call.
  const StreamPoint& before() const { return before_; }
  /// The caller's stream goes on when `stream` has come this far.
  Status release(int device, DeviceDriver::Stream stream);

 private:
  StreamGate(std::shared_ptr<GateWords> words, DeviceDriver& driver, std::size_t index);

  const std::shared_ptr<GateWords> words_;
  DeviceDriver& driver_;
  const std::size_t index_;
  std::uint64_t* const word_;
  const std::uint64_t value_;
  StreamPoint before_;
  std::unique_ptr<StreamPoint> after_;  // the wait
};

}  // namespace tutti
