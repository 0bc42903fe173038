#include "transport/device_driver.h"

#if defined(TUTTI_HAVE_CUDA)
#include "executor/cuda_driver.h"
#endif

namespace tutti {

DeviceDriver* device_driver() {
#if defined(TUTTI_HAVE_CUDA)
  return cuda_driver();
#else
  return nullptr;
#endif
}

}  // namespace tutti
