// What all files that call CUDA need: errors as statuses, calls that do not disturb captures, functions of the driver's
// library.
#pragma once

#include <cuda_runtime_api.h>

#include "core/status.h"

namespace tutti {

inline Status checked(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  (void)cudaGetLastError();  // cleared, because it is reported here and shall not be reported again
  return fail(Code::kUnhandledCudaError, "{}: {} ({})", what, cudaGetErrorString(error), cudaGetErrorName(error));
}

/// While any thread captures a stream, calls that could disturb the capture are refused and end it, unless the thread
/// that makes them has said that it means no captured work. The calling thread says so for a scope.
class RelaxedCaptureScope {
 public:
  RelaxedCaptureScope() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCaptureScope() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCaptureScope(const RelaxedCaptureScope&) = delete;
  RelaxedCaptureScope& operator=(const RelaxedCaptureScope&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// A function of the driver's own library, which the runtime has loaded, in the form of a CUDA version. Returns nullptr
/// if the library has none.
template <class Function>
Function driver_function(const char* name, unsigned version) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found);
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess) {
    (void)cudaGetLastError();
    return nullptr;
  }
  return reinterpret_cast<Function>(function);
}

}  // namespace tutti
