// An event that says whether all that was on a stream when it was recorded has ended.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "device/device_driver.h"

namespace tutti {

class EventRing;

class DeviceEvent {
 public:
  /// Makes an event for this one use, say in a stream that is captured.
  static Status record(DeviceDriver& driver, int device, DeviceDriver::Stream stream,
                       std::shared_ptr<DeviceEvent>* event);
  ~DeviceEvent();
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;

  DeviceDriver::Event get() const { return event_; }
  Status query(bool* done) const { return driver_.query(event_, done); }
  /// False also if that is not known any more because the device has failed.
  bool has_ended() const {
    bool done = false;
    return query(&done).ok() && done;
  }

 private:
  friend class EventRing;
  DeviceEvent(DeviceDriver& driver, DeviceDriver::Event event, std::shared_ptr<EventRing> ring)
      : driver_(driver), event_(event), ring_(std::move(ring)) {}

  DeviceDriver& driver_;
  DeviceDriver::Event event_;
  const std::shared_ptr<EventRing> ring_;  // which gets the event back; nullptr if it came from none
};

/// Events of one device that are used again and again, because to make and to destroy one are calls of the driver.
/// Thread-safe.
class EventRing : public std::enable_shared_from_this<EventRing> {
 public:
  EventRing(DeviceDriver& driver, int device) : driver_(driver), device_(device) {}
  ~EventRing();
  EventRing(const EventRing&) = delete;
  EventRing& operator=(const EventRing&) = delete;

  /// Makes the first events. There will be more if so many are in use.
  Status open(std::size_t events);
  /// Records an event on a stream that is not captured.
  Status record(DeviceDriver::Stream stream, std::shared_ptr<DeviceEvent>* event);

 private:
  friend class DeviceEvent;
  Status take(DeviceDriver::Event* event);
  void give_back(DeviceDriver::Event event);

  DeviceDriver& driver_;
  const int device_;
  Mutex mutex_;
  std::vector<DeviceDriver::Event> free_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti
