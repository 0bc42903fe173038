#include "device/device_event.h"

namespace tutti {

Status DeviceEvent::record(DeviceDriver& driver, int device, DeviceDriver::Stream stream,
                           std::shared_ptr<DeviceEvent>* event) {
  DeviceDriver::Event made = nullptr;
  TUTTI_TRY(driver.create_event(device, &made));
  std::shared_ptr<DeviceEvent> held(new DeviceEvent(driver, made));
  TUTTI_TRY(driver.record(device, made, stream));
  *event = std::move(held);
  return {};
}

}  // namespace tutti
