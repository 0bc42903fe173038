#include "device_streams.h"

#include <cstdlib>

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Logging.h>
#include <tutti/tutti.h>

// Until torch 2.15 only CUDA's own classes know the handle of a stream, and whether it is captured.
#if defined(TUTTI_TORCH_CUDA) && TUTTI_TORCH < 215
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace tutti_torch {
namespace {

/// A test may have its own device count as one that Tutti's driver serves, because its library has a driver for it.
bool is_of_tests(c10::DeviceType type) {
  static const char* const set = std::getenv("TUTTI_TEST_TORCH_DEVICE");
  return set != nullptr && c10::DeviceTypeName(type, /*lower_case=*/true) == set;
}

std::string find_why_no_streams() {
  const char* const set = std::getenv("TUTTI_TORCH_CUDA");
  const std::string way = set == nullptr || *set == '\0' ? "direct" : set;
  if (way == "bridge") return "TUTTI_TORCH_CUDA=bridge";
  if (way != "direct") C10_THROW_ERROR(ValueError, "tutti: TUTTI_TORCH_CUDA is " + way + ", neither direct nor bridge");
  tuttiStream_t stream = nullptr;
  if (tuttiStreamFromCuda(&stream, nullptr) != tuttiSuccess) return tuttiGetLastError(nullptr);
  static_cast<void>(tuttiStreamDestroy(stream));
  return {};
}

c10::impl::VirtualGuardImpl guard_of(const c10::Device& device) { return c10::impl::VirtualGuardImpl(device.type()); }

}  // namespace

bool reaches(c10::DeviceType type) {
#ifdef TUTTI_TORCH_CUDA
  if (type == c10::DeviceType::CUDA) return true;
#endif
  return is_of_tests(type);
}

const std::string& why_no_streams() {
  static const std::string why = [] {
    std::string found = find_why_no_streams();
    if (!found.empty()) LOG(WARNING) << "tutti: tensors on a GPU go through host memory: " << found;
    return found;
  }();
  return why;
}

c10::Device device_of(const char* title, const std::vector<at::Tensor>& tensors) {
  std::optional<c10::Device> device;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || tensor.device() == device) continue;
    if (device)
      C10_THROW_ERROR(ValueError,
                      c10::str(title, ": tensors on ", *device, " and on ", tensor.device(), " in one call"));
    device = tensor.device();
    if (!device->is_cpu() && !reaches(device->type()))
      C10_THROW_ERROR(ValueError,
                      c10::str(title, ": a tensor on ", *device, "; this build of tutti_torch takes ",
                               reaches(c10::DeviceType::CUDA) ? "those on cpu and cuda" : "those on cpu only"));
  }
  return device.value_or(c10::Device(c10::DeviceType::CPU));
}

c10::Stream current_stream(const c10::Device& device) { return guard_of(device).getStream(device); }

c10::Stream pool_stream(const c10::Device& device) {
  return guard_of(device).getStreamFromGlobalPool(device, /*isHighPriority=*/true);
}

void* native_handle(const c10::Stream& stream) {
#if TUTTI_TORCH >= 215
  return guard_of(stream.device()).getStreamNativeHandle(stream);
#elif defined(TUTTI_TORCH_CUDA)
  return c10::cuda::CUDAStream(stream).stream();
#else
  C10_THROW_ERROR(NotImplementedError, c10::str("tutti: this torch does not tell the handle of ", stream));
#endif
}

bool is_captured(const c10::Stream& stream) {
#if TUTTI_TORCH >= 215
  return guard_of(stream.device()).isStreamCapturing(stream);
#elif defined(TUTTI_TORCH_CUDA)
  static_cast<void>(stream);
  return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
#else
  static_cast<void>(stream);
  return false;
#endif
}

void order(const c10::Stream& earlier, const c10::Stream& later) {
  if (earlier == later) return;
  c10::Event event(earlier.device_type());
  event.record(earlier);
  event.block(later);
}

}  // namespace tutti_torch
