#include "comm/device/cuda_stream.h"

namespace tutti {

Status CudaStream::of(void* handle, CudaStream* stream) {
  DeviceDriver* const driver = device_driver();
  if (driver == nullptr) return fail(Code::kUnsupported, "this process has no CUDA device");
  CudaStream found;
  found.handle_ = handle == nullptr ? driver->default_stream() : handle;
  TUTTI_TRY(driver->find_traits(found.handle_, &found.traits_));
  found.is_per_thread_ = found.handle_ == driver->per_thread_stream();
  *stream = found;
  return {};
}

Status CudaStream::place_on(int device, StreamKey* place) const {
  if (traits_.device >= 0 && device >= 0 && traits_.device != device)
    return fail(Code::kInvalidArgument, "the CUDA stream is one of device {}, and the call one for device {}",
                traits_.device, device);
  *place = StreamKey{};
  place->device = traits_.device >= 0 ? traits_.device : device;
  place->handle = handle_;
  place->thread = is_per_thread_ ? stream_thread() : 0;
  place->is_default = handle_ == device_driver()->default_stream();
  place->is_apart = traits_.is_apart;
  return {};
}

}  // namespace tutti
