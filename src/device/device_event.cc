#include "device/device_event.h"

namespace tutti {

Status DeviceEvent::record(DeviceDriver& driver, int device, DeviceDriver::Stream stream,
                           std::shared_ptr<DeviceEvent>* event) {
  DeviceDriver::Event made = nullptr;
  TUTTI_TRY(driver.create_event(device, &made));
  std::shared_ptr<DeviceEvent> held(new DeviceEvent(driver, made, nullptr));
  TUTTI_TRY(driver.record(device, made, stream));
  *event = std::move(held);
  return {};
}

DeviceEvent::~DeviceEvent() {
  if (ring_ != nullptr) {
    ring_->give_back(event_);
  } else {
    (void)driver_.destroy_event(event_);
  }
}

EventRing::~EventRing() {
  const MutexLock lock(mutex_);
  for (const DeviceDriver::Event event : free_) (void)driver_.destroy_event(event);
}

Status EventRing::open(std::size_t events) {
  for (std::size_t i = 0; i < events; ++i) {
    DeviceDriver::Event made = nullptr;
    TUTTI_TRY(driver_.create_event(device_, &made));
    give_back(made);
  }
  return {};
}

Status EventRing::record(DeviceDriver::Stream stream, std::shared_ptr<DeviceEvent>* event) {
  DeviceDriver::Event taken = nullptr;
  TUTTI_TRY(take(&taken));
  std::shared_ptr<DeviceEvent> held(new DeviceEvent(driver_, taken, shared_from_this()));
  TUTTI_TRY(driver_.record(device_, taken, stream));
  *event = std::move(held);
  return {};
}

Status EventRing::take(DeviceDriver::Event* event) {
  {
    const MutexLock lock(mutex_);
    if (!free_.empty()) {
      *event = free_.back();
      free_.pop_back();
      return {};
    }
  }
  return driver_.create_event(device_, event);
}

void EventRing::give_back(DeviceDriver::Event event) {
  const MutexLock lock(mutex_);
  free_.push_back(event);
}

}  // namespace tutti
