#include "device/device_driver.h"

#if defined(TUTTI_HAVE_CUDA)
#include "device/cuda_driver.h"
#include "device/cuda_library.h"
#endif

namespace tutti {

DeviceDriver* device_driver() {
#if defined(TUTTI_HAVE_CUDA)
  return cuda_driver();
#else
  return nullptr;
#endif
}

DeviceDriver* device_driver_in_use() {
#if defined(TUTTI_HAVE_CUDA)
  return cuda_is_in_use() ? cuda_driver() : nullptr;
#else
  return nullptr;
#endif
}

bool may_have_device() {
#if defined(TUTTI_HAVE_CUDA)
  return cuda_is_installed();
#else
  return false;
#endif
}

}  // namespace tutti
