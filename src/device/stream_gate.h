// Lets the host carry out a call on a CUDA stream: the stream waits until a word in host memory says that it may go on.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/mutex.h"
#include "device/device_driver.h"
#include "device/stream_point.h"

namespace tutti {

/// Words that streams wait on, each for one call at a time. Their values only grow, so that a word may serve the next
/// call while the stream of the call before has not looked at it yet. They are freed when all streams have looked.
/// Thread-safe.
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
  /// Returns a word that no call has; blocks while calls have all of them.
  std::size_t take();
  void give_back(std::size_t index, std::unique_ptr<StreamPoint> after);

  DeviceDriver& driver_;
  std::uint64_t* words_ = nullptr;
  Mutex mutex_;
  ConditionVariable given_back_;
  std::vector<std::size_t> free_ TUTTI_GUARDED_BY(mutex_);
  /// The waits, already ended by the host, that streams may not have come to yet.
  std::vector<std::unique_ptr<StreamPoint>> looks_ TUTTI_GUARDED_BY(mutex_);
};

/// A place in a stream where it waits while the host carries out one call. It goes on when this is destroyed, at the
/// latest.
class StreamGate {
 public:
  /// Puts the wait into the stream.
  static Status hold(std::shared_ptr<GateWords> words, DeviceDriver& driver, int device, DeviceDriver::Stream stream,
                     std::shared_ptr<StreamGate>* gate);
  ~StreamGate();
  StreamGate(const StreamGate&) = delete;
  StreamGate& operator=(const StreamGate&) = delete;

  /// The point that the stream reaches when all that stands before the call has ended.
  const StreamPoint& before() const { return before_; }
  /// Puts onto `stream` what lets the caller's stream go on, once `stream` has come there.
  Status release(int device, DeviceDriver::Stream stream);

 private:
  StreamGate(std::shared_ptr<GateWords> words, DeviceDriver& driver, std::size_t index);

  const std::shared_ptr<GateWords> words_;
  DeviceDriver& driver_;
  const std::size_t index_;
  std::uint64_t* const word_;
  const std::uint64_t value_;
  StreamPoint before_;
  std::unique_ptr<StreamPoint> after_;  // reached when the stream has passed the wait
};

}  // namespace tutti
