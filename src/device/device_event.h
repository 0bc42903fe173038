// An event that says whether all that was on a stream when it was recorded has ended.
#pragma once

#include <memory>

#include "device/device_driver.h"

namespace tutti {

class DeviceEvent {
 public:
  static Status record(DeviceDriver& driver, int device, DeviceDriver::Stream stream,
                       std::shared_ptr<DeviceEvent>* event);
  ~DeviceEvent() { (void)driver_.destroy_event(event_); }
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
  DeviceEvent(DeviceDriver& driver, DeviceDriver::Event event) : driver_(driver), event_(event) {}
  DeviceDriver& driver_;
  DeviceDriver::Event event_;
};

}  // namespace tutti
