// CUDA's runtime, linked statically. It looks for the driver when find_gpu is called, and nothing else here needs one.
// The library has a runtime of its own; both use a device's one primary context, so streams and pointers are the same.
#include <cuda_runtime_api.h>

#include "gpu.h"

namespace tutti::perf {
namespace {

tuttiResult_t checked(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return tuttiSuccess;
  (void)cudaGetLastError();  // cleared, because it is reported here and shall not be reported again
  gpu_fault() = std::string(what) + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")";
  return tuttiUnhandledCudaError;
}

cudaStream_t stream_of(Gpu::Stream stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(Gpu::Event event) { return static_cast<cudaEvent_t>(event); }
cudaGraphExec_t graph_of(Gpu::Graph graph) { return static_cast<cudaGraphExec_t>(graph); }

class CudaGpu final : public Gpu {
 public:
  explicit CudaGpu(int devices) : devices_(devices) {}

  int devices() override { return devices_; }
  std::string name(int device) override {
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) return (void)cudaGetLastError(), "unknown";
    return properties.name;
  }
  tuttiResult_t use(int device) override {
    const tuttiResult_t chosen = checked(cudaSetDevice(device), "cudaSetDevice");
    return chosen == tuttiSuccess ? checked(cudaFree(nullptr), "starting the device") : chosen;  // makes its context
  }
  tuttiResult_t free_memory(std::size_t* bytes) override {
    std::size_t all = 0;
    return checked(cudaMemGetInfo(bytes, &all), "cudaMemGetInfo");
  }

  tuttiResult_t create_stream(Stream* stream) override {
    cudaStream_t made = nullptr;
    const tuttiResult_t result = checked(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreate");
    *stream = made;
    return result;
  }
  void destroy_stream(Stream stream) override { (void)cudaStreamDestroy(stream_of(stream)); }
  tuttiResult_t synchronize(Stream stream) override {
    return checked(cudaStreamSynchronize(stream_of(stream)), "cudaStreamSynchronize");
  }
  tuttiResult_t copy(void* to, const void* from, std::size_t bytes, Stream stream) override {
    return checked(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(stream)), "cudaMemcpyAsync");
  }
  tuttiResult_t clear(void* memory, std::size_t bytes, Stream stream) override {
    return checked(cudaMemsetAsync(memory, 0, bytes, stream_of(stream)), "cudaMemsetAsync");
  }

  tuttiResult_t create_event(Event* event) override {
    cudaEvent_t made = nullptr;
    const tuttiResult_t result = checked(cudaEventCreate(&made), "cudaEventCreate");
    *event = made;
    return result;
  }
  void destroy_event(Event event) override { (void)cudaEventDestroy(event_of(event)); }
  tuttiResult_t record(Event event, Stream stream) override {
    return checked(cudaEventRecord(event_of(event), stream_of(stream)), "cudaEventRecord");
  }
  tuttiResult_t wait_for(Event event) override {
    return checked(cudaEventSynchronize(event_of(event)), "cudaEventSynchronize");
  }
  tuttiResult_t seconds_between(Event first, Event second, double* seconds) override {
    float milliseconds = 0;
    const tuttiResult_t result =
        checked(cudaEventElapsedTime(&milliseconds, event_of(first), event_of(second)), "cudaEventElapsedTime");
    *seconds = static_cast<double>(milliseconds) * 1e-3;
    return result;
  }

  // The mode lets the threads of other ranks go on meanwhile.
  tuttiResult_t begin_capture(Stream stream) override {
    return checked(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeThreadLocal),
                   "cudaStreamBeginCapture");
  }
  tuttiResult_t end_capture(Stream stream, Graph* graph) override {
    cudaGraph_t recorded = nullptr;
    tuttiResult_t result = checked(cudaStreamEndCapture(stream_of(stream), &recorded), "cudaStreamEndCapture");
    cudaGraphExec_t made = nullptr;
    if (result == tuttiSuccess) result = checked(cudaGraphInstantiate(&made, recorded, 0), "cudaGraphInstantiate");
    if (result == tuttiSuccess) result = checked(cudaGraphUpload(made, stream_of(stream)), "cudaGraphUpload");
    if (recorded != nullptr) (void)cudaGraphDestroy(recorded);
    if (result != tuttiSuccess && made != nullptr) (void)cudaGraphExecDestroy(made);
    *graph = result == tuttiSuccess ? made : nullptr;
    return result;
  }
  tuttiResult_t run(Graph graph, Stream stream) override {
    return checked(cudaGraphLaunch(graph_of(graph), stream_of(stream)), "cudaGraphLaunch");
  }
  void destroy_graph(Graph graph) override { (void)cudaGraphExecDestroy(graph_of(graph)); }

 private:
  const int devices_;
};

/// Returns how many devices there are; if none can be used, `why` says why.
int count_devices(std::string* why) {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices > 0) return devices;
  (void)cudaGetLastError();
  if (error == cudaErrorInsufficientDriver) {
    int driver = 0;
    const bool older = cudaDriverGetVersion(&driver) == cudaSuccess && driver != 0;
    *why = older ? "the CUDA driver (" + std::to_string(driver / 1000) + "." + std::to_string(driver % 100 / 10) +
                       ") is older than what this program was built for (" + std::to_string(CUDART_VERSION / 1000) +
                       "." + std::to_string(CUDART_VERSION % 100 / 10) + ")"
                 : "there is no CUDA driver on this machine";
  } else {
    *why = error == cudaSuccess ? "there is no CUDA device" : cudaGetErrorString(error);
  }
  return 0;
}

}  // namespace

Gpu* find_gpu(std::string* why) {
  static std::string reason;
  static CudaGpu gpu(count_devices(&reason));
  *why = reason;
  return gpu.devices() == 0 ? nullptr : &gpu;
}

}  // namespace tutti::perf
