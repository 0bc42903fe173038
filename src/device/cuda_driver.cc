#include "device/cuda_driver.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "device/cuda_calls.h"
#include "device/cuda_contexts.h"
#include "device/cuda_mappings.h"

namespace tutti {

namespace {

/// Rows that lie farther apart are copied one by one (cudaDeviceProp::memPitch).
constexpr std::size_t kMaxPitch = 2147483647;

/// How many streams run side by side on a device.
int connections() {
  constexpr long kUsual = 8, kMost = 32;
  const char* const set = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  const long value = set == nullptr ? kUsual : std::strtol(set, nullptr, 10);
  return static_cast<int>(value >= 1 && value <= kMost ? value : kUsual);
}

/// Whether a launch returns only when its kernel has ended.
bool launches_block() {
  const char* const set = std::getenv("CUDA_LAUNCH_BLOCKING");
  return set != nullptr && std::strtol(set, nullptr, 10) != 0;
}

cudaStream_t stream_of(DeviceDriver::Stream stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(DeviceDriver::Event event) { return static_cast<cudaEvent_t>(event); }

/// cuStreamWaitValue64 and cuStreamWriteValue64; host memory of the runtime has the same address for devices.
using WordFunction = int (*)(cudaStream_t stream, std::uintptr_t word, std::uint64_t value, unsigned flags);

/// Whether the processor may use managed memory while kernels run, on each device.
bool manage_both(int devices) {
  for (int device = 0; device < devices; ++device) {
    int both = 0;
    const cudaError_t error = cudaDeviceGetAttribute(&both, cudaDevAttrConcurrentManagedAccess, device);
    if (error != cudaSuccess) (void)cudaGetLastError();
    if (error != cudaSuccess || both == 0) return false;
  }
  return true;
}

class CudaDriver final : public DeviceDriver {
 public:
  explicit CudaDriver(int devices)
      : devices_(devices),
        wait_for_word_(driver_function<WordFunction>("cuStreamWaitValue64", 11070)),
        write_word_(driver_function<WordFunction>("cuStreamWriteValue64", 11070)),
        manages_both_(manage_both(devices)),
        pools_(static_cast<std::size_t>(devices)) {}

  int devices() override { return devices_; }

  int current_device() override { return CudaContexts::get().current_device(); }

  Status limits(int device, Limits* limits) override {
    limits->connections = connections();
    limits->launches_block = launches_block();
    return checked(cudaDeviceGetAttribute(&limits->processors, cudaDevAttrMultiProcessorCount, device),
                   "cudaDeviceGetAttribute");
  }

  Status identify(int device, Identity* identity) override {
    const OnDevice scope(device);
    TUTTI_TRY(scope.status());
    cudaDeviceProp properties{};
    TUTTI_TRY(checked(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties"));
    static_assert(sizeof properties.uuid == sizeof identity->uuid);
    __builtin_memcpy(identity->uuid.data(), &properties.uuid, sizeof properties.uuid);
    int mps = 0;
    const bool known = cudaDeviceGetAttribute(&mps, cudaDevAttrMpsEnabled, device) == cudaSuccess;
    if (!known) (void)cudaGetLastError();  // a driver that is older than this attribute answers with an error
    identity->concurrent_processes = known && mps != 0;
    return {};
  }

  Status allocate(int device, Bytes bytes, void** memory) override {
    const OnDevice scope(device);
    const RelaxedCaptureScope captures;  // after the device is chosen: this, too, would begin to use one
    TUTTI_TRY(scope.status());
    TUTTI_TRY(checked(cudaMalloc(memory, bytes.value), "cudaMalloc"));
    Stream stream = nullptr;
    Status zeroed = create_stream(device, &stream);
    if (zeroed.ok()) zeroed = checked(cudaMemsetAsync(*memory, 0, bytes.value, stream_of(stream)), "cudaMemset");
    if (zeroed.ok()) zeroed = synchronize(stream);
    if (stream != nullptr) (void)destroy_stream(stream);
    if (!zeroed.ok()) (void)cudaFree(std::exchange(*memory, nullptr));
    return zeroed;
  }
  Status release(int device, void* memory) override {
    const OnDevice scope(device);
    const RelaxedCaptureScope captures;  // after the device is chosen: this, too, would begin to use one
    TUTTI_TRY(scope.status());
    return checked(cudaFree(memory), "cudaFree");
  }
  // The pool's stream has no other work, so the memory is there when the call returns.
  Status allocate_pooled(int device, Bytes bytes, void** memory) override {
    const OnDevice scope(device);
    const RelaxedCaptureScope captures;
    TUTTI_TRY(scope.status());
    const Pool beside = pool_of(device);
    TUTTI_TRY(checked(cudaMallocFromPoolAsync(memory, bytes.value, beside.pool, beside.stream), "cudaMallocAsync"));
    return checked(cudaStreamSynchronize(beside.stream), "cudaStreamSynchronize");
  }
  Status release_pooled(int device, void* memory) override {
    const OnDevice scope(device);
    const RelaxedCaptureScope captures;
    TUTTI_TRY(scope.status());
    return checked(cudaFreeAsync(memory, pool_of(device).stream), "cudaFreeAsync");
  }
  Status export_memory(int device, void* memory, Handle* handle) override {
    const OnDevice scope(device);
    const RelaxedCaptureScope captures;
    TUTTI_TRY(scope.status());
    cudaIpcMemHandle_t made{};
    static_assert(sizeof made == sizeof(Handle));
    TUTTI_TRY(checked(cudaIpcGetMemHandle(&made, memory), "cudaIpcGetMemHandle"));
    __builtin_memcpy(handle->data(), &made, sizeof made);
    return {};
  }
  Status open_memory(int device, const Handle& handle, void** memory) override {
    const OnDevice scope(device);
    const RelaxedCaptureScope captures;
    TUTTI_TRY(scope.status());
    cudaIpcMemHandle_t made{};
    __builtin_memcpy(&made, handle.data(), sizeof made);
    return checked(cudaIpcOpenMemHandle(memory, made, cudaIpcMemLazyEnablePeerAccess), "cudaIpcOpenMemHandle");
  }
  Status close_memory(int device, void* memory) override {
    const OnDevice scope(device);
    const RelaxedCaptureScope captures;
    TUTTI_TRY(scope.status());
    return checked(cudaIpcCloseMemHandle(memory), "cudaIpcCloseMemHandle");
  }
  Status allocate_pinned(Bytes bytes, void** memory) override {
    const OnAnyDevice scope;
    const RelaxedCaptureScope captures;
    TUTTI_TRY(
        checked(cudaHostAlloc(memory, bytes.value, cudaHostAllocPortable | cudaHostAllocMapped), "cudaHostAlloc"));
    __builtin_memset(*memory, 0, bytes.value);
    return {};
  }
  Status release_pinned(void* memory) override {
    const OnAnyDevice scope;
    const RelaxedCaptureScope captures;
    return checked(cudaFreeHost(memory), "cudaFreeHost");
  }

  Place place_of(const void* memory) override { return meaning_of(CudaContexts::get().place_of(memory)); }
  Place place_of(const void* memory, Allocation* allocation) override {
    CudaContexts::Allocation found;
    const CudaContexts::Place place = CudaContexts::get().place_of(memory, &found);
    *allocation = Allocation{reinterpret_cast<std::byte*>(found.begin), found.bytes, found.id, found.device,
                             found.device >= 0 && found.has_handle};
    return meaning_of(place);
  }

  // It has the highest priority, because its kernels wait for peers, who wait for them.
  Status create_stream(int device, Stream* stream) override {
    const OnDevice scope(device);
    const RelaxedCaptureScope captures;  // after the device is chosen: this, too, would begin to use one
    TUTTI_TRY(scope.status());
    int least = 0;
    int greatest = 0;
    TUTTI_TRY(checked(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange"));
    cudaStream_t made = nullptr;
    TUTTI_TRY(checked(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, greatest), "cudaStreamCreate"));
    *stream = made;
    return {};
  }
  Status synchronize(Stream stream) override {
    const OnAnyDevice scope;
    const RelaxedCaptureScope captures;
    return checked(cudaStreamSynchronize(stream_of(stream)), "cudaStreamSynchronize");
  }
  Status destroy_stream(Stream stream) override {
    const OnAnyDevice scope;
    const RelaxedCaptureScope captures;
    return checked(cudaStreamDestroy(stream_of(stream)), "cudaStreamDestroy");
  }
  Stream default_stream() override { return cudaStreamLegacy; }
  Stream per_thread_stream() override { return cudaStreamPerThread; }
  Status find_traits(Stream stream, StreamTraits* traits) override {
    *traits = StreamTraits{};
    traits->is_apart = stream != cudaStreamLegacy && stream != cudaStreamPerThread;
    if (!traits->is_apart) return {};
    const OnAnyDevice scope;
    const RelaxedCaptureScope captures;
    unsigned flags = 0;
    TUTTI_TRY(checked(cudaStreamGetFlags(stream_of(stream), &flags), "cudaStreamGetFlags"));
    traits->is_apart = (flags & cudaStreamNonBlocking) != 0;
    traits->device = CudaContexts::get().device_of(stream_of(stream));
    return {};
  }

  Status create_event(int device, Event* event) override {
    const OnDevice scope(device);
    TUTTI_TRY(scope.status());
    cudaEvent_t made = nullptr;
    TUTTI_TRY(checked(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "cudaEventCreate"));
    *event = made;
    return {};
  }
  Status destroy_event(Event event) override {
    const OnAnyDevice scope;
    return checked(cudaEventDestroy(event_of(event)), "cudaEventDestroy");
  }
  Status record(int device, Event event, Stream stream) override {
    const OnDevice scope(device);
    TUTTI_TRY(scope.status());
    return checked(cudaEventRecord(event_of(event), stream_of(stream)), "cudaEventRecord");
  }
  Status wait(int device, Stream stream, Event event) override {
    const OnDevice scope(device);
    TUTTI_TRY(scope.status());
    return checked(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0), "cudaStreamWaitEvent");
  }
  Status query(Event event, bool* done) override {
    const OnAnyDevice scope;
    const RelaxedCaptureScope captures;
    const cudaError_t state = cudaEventQuery(event_of(event));
    *done = state == cudaSuccess;
    if (state == cudaErrorNotReady) {
      (void)cudaGetLastError();
      return {};
    }
    return checked(state, "a kernel");
  }
  Status capture_of(Stream stream, std::uint64_t* capture) override {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long id = 0;
    *capture = 0;
    const cudaError_t error = cudaStreamGetCaptureInfo(stream_of(stream), &status, &id);
    if (error == cudaErrorStreamCaptureImplicit) {
      (void)cudaGetLastError();
      return fail(Code::kInvalidUsage,
                  "the default stream takes nothing while another stream is captured into a CUDA graph");
    }
    if (error == cudaSuccess && status == cudaStreamCaptureStatusInvalidated)
      return fail(Code::kInvalidUsage, "the capture of this stream into a CUDA graph has failed before this call");
    if (error == cudaSuccess && status == cudaStreamCaptureStatusActive) *capture = id;
    return checked(error, "cudaStreamGetCaptureInfo");
  }
  Status copy(int device, void* to, const void* from, Bytes bytes, Stream stream) override {
    const OnDevice scope(device);
    const RelaxedCaptureScope captures;  // after the device is chosen: this, too, would begin to use one
    TUTTI_TRY(scope.status());
    return checked(cudaMemcpyAsync(to, from, bytes.value, cudaMemcpyDefault, stream_of(stream)), "cudaMemcpyAsync");
  }
  Status copy_rows(int device, void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                   std::size_t width, std::size_t rows, Stream stream) override {
    const OnDevice scope(device);
    const RelaxedCaptureScope captures;  // after the device is chosen: this, too, would begin to use one
    TUTTI_TRY(scope.status());
    if (rows > 1 && to_pitch <= kMaxPitch && from_pitch <= kMaxPitch)
      return checked(
          cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, rows, cudaMemcpyDefault, stream_of(stream)),
          "cudaMemcpy2DAsync");
    for (std::size_t row = 0; row < rows; ++row) {
      const void* const begin = static_cast<const char*>(from) + row * from_pitch;
      TUTTI_TRY(checked(
          cudaMemcpyAsync(static_cast<char*>(to) + row * to_pitch, begin, width, cudaMemcpyDefault, stream_of(stream)),
          "cudaMemcpyAsync"));
    }
    return {};
  }
  Status wait_for_word(int device, Stream stream, std::uint64_t* word, std::uint64_t value) override {
    return on_word(wait_for_word_, "cuStreamWaitValue64", device, stream, word, value);
  }
  Status write_word(int device, Stream stream, std::uint64_t* word, std::uint64_t value) override {
    return on_word(write_word_, "cuStreamWriteValue64", device, stream, word, value);
  }

  Status reach(int device, int peer, bool* reachable) override {
    const OnDevice scope(device);
    const RelaxedCaptureScope captures;  // after the device is chosen: this, too, would begin to use one
    TUTTI_TRY(scope.status());
    int can = 0;
    TUTTI_TRY(checked(cudaDeviceCanAccessPeer(&can, device, peer), "cudaDeviceCanAccessPeer"));
    *reachable = can != 0;
    if (can == 0) return {};
    const cudaError_t enabled = cudaDeviceEnablePeerAccess(peer, 0);
    if (enabled == cudaErrorPeerAccessAlreadyEnabled) {
      (void)cudaGetLastError();
      return {};
    }
    return checked(enabled, "cudaDeviceEnablePeerAccess");
  }

  DeviceMappings* virtual_memory() override { return cuda_mappings(); }

  Status load(int device, std::span<const Kernel* const> kernels) override {
    const OnDevice scope(device);
    const RelaxedCaptureScope captures;  // after the device is chosen: this, too, would begin to use one
    TUTTI_TRY(scope.status());
    TUTTI_TRY(open_pool(device));
    std::size_t stack = 0;
    cudaFuncAttributes attributes;
    for (const Kernel* const kernel : kernels) {
      TUTTI_TRY(checked(cudaFuncGetAttributes(&attributes, kernel->cuda()), "loading the kernels of collectives"));
      stack = std::max(stack, attributes.localSizeBytes);
    }
    return make_room_for_stacks(stack);
  }

  Status launch(int device, Stream stream, const Kernel& kernel, unsigned blocks, const void* parameter) override {
    const OnDevice scope(device);
    const RelaxedCaptureScope captures;  // after the device is chosen: this, too, would begin to use one
    TUTTI_TRY(scope.status());
    void* parameters[] = {const_cast<void*>(parameter)};
    return checked(
        cudaLaunchKernel(kernel.cuda(), dim3(blocks), dim3(kernel.threads), parameters, 0, stream_of(stream)),
        kernel.task);
  }

 private:
  // Managed memory is where it is used.
  Place meaning_of(CudaContexts::Place place) const {
    return Place{place.is_managed || place.device >= 0, place.device, place.is_managed && manages_both_};
  }

  // A launch of a kernel that needs a larger stack than the device has room for waits for all kernels.
  static Status make_room_for_stacks(std::size_t bytes) {
    std::size_t limit = 0;
    TUTTI_TRY(checked(cudaDeviceGetLimit(&limit, cudaLimitStackSize), "cudaDeviceGetLimit"));
    return limit >= bytes ? Status{} : checked(cudaDeviceSetLimit(cudaLimitStackSize, bytes), "cudaDeviceSetLimit");
  }

  // With flags 0, the wait ends when the word is at least the value, and the host sees the write after all that stands
  // before it in the stream.
  static Status on_word(WordFunction function, const char* name, int device, Stream stream, std::uint64_t* word,
                        std::uint64_t value) {
    if (function == nullptr) return fail(Code::kUnsupported, "this driver has no {}", name);
    const OnDevice scope(device);
    TUTTI_TRY(scope.status());
    const int error = function(stream_of(stream), reinterpret_cast<std::uintptr_t>(word), value, 0);
    return error == 0 ? Status{} : fail(Code::kUnhandledCudaError, "{}: error {}", name, error);
  }

  /// A pool for memory that comes and goes while kernels run. Never destroyed: the process's end does that.
  struct Pool {
    cudaMemPool_t pool = nullptr;
    cudaStream_t stream = nullptr;
  };

  Pool pool_of(int device) {
    const MutexLock lock(mutex_);
    return pools_[static_cast<std::size_t>(device)];
  }

  // The pool keeps what is given back, because returning it to the device may wait for kernels.
  Status open_pool(int device) {
    const MutexLock lock(mutex_);
    Pool& beside = pools_[static_cast<std::size_t>(device)];
    if (beside.pool == nullptr) {
      cudaMemPoolProps properties{};
      properties.allocType = cudaMemAllocationTypePinned;
      properties.location = {cudaMemLocationTypeDevice, device};
      TUTTI_TRY(checked(cudaMemPoolCreate(&beside.pool, &properties), "cudaMemPoolCreate"));
      std::uint64_t keep = ~std::uint64_t{0};
      TUTTI_TRY(checked(cudaMemPoolSetAttribute(beside.pool, cudaMemPoolAttrReleaseThreshold, &keep),
                        "cudaMemPoolSetAttribute"));
    }
    if (beside.stream != nullptr) return {};
    return checked(cudaStreamCreateWithFlags(&beside.stream, cudaStreamNonBlocking), "cudaStreamCreate");
  }

  const int devices_;
  const WordFunction wait_for_word_;
  const WordFunction write_word_;
  const bool manages_both_;
  Mutex mutex_;
  std::vector<Pool> pools_ TUTTI_GUARDED_BY(mutex_);  // by device, once load() was called
};

int count_devices() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess) return devices;
  (void)cudaGetLastError();
  return 0;
}

}  // namespace

// Never destroyed: at the process's end other threads may still look at their kernels.
DeviceDriver* cuda_driver() {
  static CudaDriver* const driver = new CudaDriver(count_devices());
  return driver->devices() == 0 ? nullptr : driver;
}

}  // namespace tutti
