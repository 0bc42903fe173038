// The driver of CUDA devices.
#pragma once

#include "device/device_driver.h"

namespace tutti {

/// Returns nullptr if the system has no device or no driver. Any thread.
DeviceDriver* cuda_driver();

}  // namespace tutti
