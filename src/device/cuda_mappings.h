// Device memory by the driver's virtual memory management, and multicast objects.
#pragma once

#include "device/device_mappings.h"

namespace tutti {

/// Returns nullptr if the driver's library has no such functions. If it lacks only those of multicast, no device can
/// multicast.
DeviceMappings* cuda_mappings();

}  // namespace tutti
