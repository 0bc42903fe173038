#include "transport/device_driver.h"

namespace tutti {

Status copy_beside(DeviceDriver& driver, int device, void* to, const void* from, Bytes bytes) {
  DeviceDriver::Stream beside = nullptr;
  TUTTI_TRY(driver.create_stream(device, &beside));
  Status copied = driver.copy(device, to, from, bytes, beside);
  if (copied.ok()) copied = driver.synchronize(beside);
  (void)driver.destroy_stream(beside);
  return copied;
}

}  // namespace tutti
