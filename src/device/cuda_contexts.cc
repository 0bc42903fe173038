#include "device/cuda_contexts.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <type_traits>

#include "device/cuda_calls.h"

namespace tutti {

namespace {

/// `version` is the CUDA version that brought the form of the function that cuda.h declares.
template <class Function>
void find(const char* name, unsigned version, Function** function, Status* missing) {
  *function = driver_function<Function*>(name, version);
  if (*function == nullptr && missing->ok())
    *missing = fail(Code::kUnhandledCudaError, "the driver's library has no {}", name);
}

/// The runtime's codes are the driver's. cudaGetLastError() is not called: the runtime itself had no error, and its
/// last one is the caller's to read.
Status done(int result, const char* what) {
  if (result == CUDA_SUCCESS) return {};
  const auto error = static_cast<cudaError_t>(result);
  return fail(Code::kUnhandledCudaError, "{}: {} ({})", what, cudaGetErrorString(error), cudaGetErrorName(error));
}

static_assert(std::is_same_v<CUcontext, CudaContexts::Context> && std::is_same_v<CUdevice, int>);
static_assert(sizeof(CUresult) == sizeof(int) && sizeof(CUpointer_attribute) == sizeof(int));
static_assert(std::is_same_v<CUdeviceptr, unsigned long long>);

}  // namespace

CudaContexts& CudaContexts::get() {
  static CudaContexts* const contexts = new CudaContexts;  // for calls at the process's very end, too
  return *contexts;
}

CudaContexts::CudaContexts() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) (void)cudaGetLastError();
  known_.resize(static_cast<std::size_t>(std::max(devices, 0)));
  find("cuDevicePrimaryCtxRetain", 7000, &retain_, &missing_);
  find("cuDevicePrimaryCtxGetState", 7000, &state_, &missing_);
  find("cuCtxPushCurrent", 4000, &push_, &missing_);
  find("cuCtxPopCurrent", 4000, &pop_, &missing_);
  find("cuCtxGetCurrent", 4000, &current_, &missing_);
  find("cuCtxGetDevice", 2000, &device_, &missing_);
  find("cuStreamGetCtx", 9020, &of_stream_, &missing_);
  find("cuPointerGetAttributes", 7000, &attributes_, &missing_);
}

Status CudaContexts::retain(int device, Context* context) {
  const MutexLock lock(mutex_);
  if (device < 0 || static_cast<std::size_t>(device) >= known_.size())
    return fail(Code::kUnhandledCudaError, "there is no device {}", device);
  Context& known = known_[static_cast<std::size_t>(device)];
  if (known == nullptr) TUTTI_TRY(done(retain_(&known, device), "cuDevicePrimaryCtxRetain"));
  *context = known;
  return {};
}

Status CudaContexts::enter(int device) {
  TUTTI_TRY(missing_);
  Context context = nullptr;
  TUTTI_TRY(retain(device, &context));
  return done(push_(context), "cuCtxPushCurrent");
}

bool CudaContexts::enter_any() {
  Context context = nullptr;
  if (!missing_.ok() || current_(&context) != CUDA_SUCCESS || context != nullptr) return false;
  {
    const MutexLock lock(mutex_);
    const auto found = std::find_if(known_.begin(), known_.end(), [](Context known) { return known != nullptr; });
    if (found == known_.end()) return false;
    context = *found;
  }
  return push_(context) == CUDA_SUCCESS;
}

void CudaContexts::leave() {
  Context context = nullptr;
  (void)pop_(&context);
}

bool CudaContexts::is_active(int device) const {
  unsigned flags = 0;
  int active = 0;
  return state_(device, &flags, &active) == CUDA_SUCCESS && active != 0;
}

// A thread that has chosen no device uses the first, as soon as it calls the runtime.
int CudaContexts::current_device() {
  Context context = nullptr;
  int device = 0;
  if (!missing_.ok() || current_(&context) != CUDA_SUCCESS) return -1;
  if (context != nullptr && device_(&device) != CUDA_SUCCESS) return -1;
  return is_active(device) ? device : -1;
}

int CudaContexts::device_of(CUstream_st* stream) {
  Context context = nullptr;
  int device = -1;
  const bool known = missing_.ok() && of_stream_(stream, &context) == CUDA_SUCCESS && context != nullptr;
  if (!known || push_(context) != CUDA_SUCCESS) return -1;
  if (device_(&device) != CUDA_SUCCESS) device = -1;
  leave();
  return device;
}

CudaContexts::Place CudaContexts::place_of(const void* memory) {
  unsigned type = 0;        // stays 0 if the driver does not know the memory
  unsigned is_managed = 0;  // the driver writes one byte of it or all four
  int device = -1;
  int attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* values[] = {&type, &is_managed, &device};
  const auto address = static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(memory));
  if (!missing_.ok() || attributes_(3, attributes, values, address) != CUDA_SUCCESS) return {};
  if (is_managed != 0) return Place{true, -1};
  return Place{false, type == CU_MEMORYTYPE_DEVICE ? device : -1};
}

// All is asked in one call, because each costs a collective some of its time. If the driver refuses one of the
// questions for this kind of memory, the place is asked alone.
CudaContexts::Place CudaContexts::place_of(const void* memory, Allocation* allocation) {
  *allocation = Allocation{};
  unsigned type = 0, is_managed = 0, has_handle = 0;  // see above
  int device = -1;
  CUdeviceptr begin = 0;
  std::size_t bytes = 0;
  unsigned long long id = 0;
  int attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_IS_MANAGED,
                      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,   CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                      CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                      CU_POINTER_ATTRIBUTE_BUFFER_ID};
  void* values[] = {&type, &is_managed, &device, &has_handle, &begin, &bytes, &id};
  const auto address = static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(memory));
  if (!missing_.ok() || attributes_(7, attributes, values, address) != CUDA_SUCCESS) return place_of(memory);
  if (is_managed != 0) return Place{true, -1};
  if (type != CU_MEMORYTYPE_DEVICE) return {};
  *allocation = Allocation{begin, bytes, id, device, has_handle != 0};
  return Place{false, device};
}

}  // namespace tutti
