// Device memory by the driver's virtual memory management, and multicast objects.
#pragma once

#include "device/device_mappings.h"

namespace tutti {

/// nullptr: the driver's library has no such functions. Those of multicast may be missing all the same: then no device
/// has it.
DeviceMappings* cuda_mappings();

}  // namespace tutti
