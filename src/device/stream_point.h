// A point in a CUDA stream, held as an event that says whether the stream has come there.
#pragma once

#include <utility>

#include "device/device_driver.h"

namespace tutti {

/// The event is made when the point is first recorded; it may be recorded again. One thread at a time.
class StreamPoint {
 public:
  StreamPoint() = default;
  ~StreamPoint() {
    if (event_ != nullptr) (void)driver_->destroy_event(event_);
  }
  StreamPoint(const StreamPoint&) = delete;
  StreamPoint& operator=(const StreamPoint&) = delete;

  /// Sets the point to the end of what is on the stream now.
  Status record(DeviceDriver& driver, int device, DeviceDriver::Stream stream) {
    driver_ = &driver;
    if (event_ == nullptr) TUTTI_TRY(driver.create_event(device, &event_));
    return driver.record(device, event_, stream);
  }
  /// Whether the stream has come there; true if nothing was recorded.
  Status query(bool* done) const {
    *done = event_ == nullptr;
    return *done ? Status{} : driver_->query(event_, done);
  }
  DeviceDriver::Event get() const { return event_; }

 private:
  DeviceDriver* driver_ = nullptr;
  DeviceDriver::Event event_ = nullptr;
};

}  // namespace tutti
