// What a real driver does where Tutti relies on more than CUDA's documents promise:
//   beside  which calls return while a kernel spins that was started by another thread of the process
//   meet    how many kernels that wait for one another run at the same time, one and two on each stream
//   wait    whether a stream that waits for a word in memory holds up other streams
//   cost    what the calls that a collective makes cost the host, from one thread and from four
// Prints a line for each fact as it is found: the kind, the name and the value, with tabs between. A call that fails
// has its error as its value. Takes about ten seconds; much depends on CUDA_DEVICE_MAX_CONNECTIONS. Where there is no
// GPU it prints a line on stderr and ends with exit code 77.
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace tutti::bench {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// The first error since the last fact.
std::atomic<cudaError_t> first_error{cudaSuccess};

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();
  cudaError_t none = cudaSuccess;
  first_error.compare_exchange_strong(none, error);
}

void print_fact(const char* kind, const std::string& name, const std::string& value) {
  const cudaError_t error = first_error.exchange(cudaSuccess);
  std::printf("%s\t%s\t%s\n", kind, name.c_str(),
              error == cudaSuccess ? value.c_str() : (std::string("error: ") + cudaGetErrorString(error)).c_str());
  std::fflush(stdout);
}

std::string number_text(double number, const char* unit) {
  char text[64];
  std::snprintf(text, sizeof text, "%.3f %s", number, unit);
  return text;
}

__device__ unsigned long long device_ns() {
  unsigned long long ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

/// Runs until the host writes to `go`, at most `limit` nanoseconds.
__global__ void spin(const volatile int* go, unsigned long long limit) {
  const unsigned long long begin = device_ns();
  while (*go == 0 && device_ns() - begin < limit) {
  }
}

/// Waits until `kernels` such kernels have counted themselves in `here`, at most `limit` nanoseconds. `met` counts
/// those that saw all of them.
__global__ void meet(unsigned* here, unsigned* met, unsigned kernels, unsigned long long limit) {
  if (threadIdx.x != 0) return;
  atomicAdd(here, 1u);
  const unsigned long long begin = device_ns();
  while (atomicAdd(here, 0u) < kernels)
    if (device_ns() - begin > limit) return;
  atomicAdd(met, 1u);
}

struct Parameters {
  char bytes[3600];  // about as many as the interpreter has
};
__global__ void with_parameters(Parameters) {}
__global__ void nothing(int* word) {
  if (word != nullptr) *word = 1;
}
__global__ void loaded_late(int* word) {
  if (word != nullptr) *word = 2;
}
/// Has more stack than the default limit of 1 KiB allows.
__global__ void deep(int* word, int n) {
  int values[1200];
  for (int i = 0; i < 1200; ++i) values[i] = i * n;
  if (word != nullptr) *word = values[(n * 37) % 1200];
}

/// A stream that does not wait for the legacy stream, of the highest or the lowest priority.
cudaStream_t make_stream(bool highest) {
  int least = 0, greatest = 0;
  cudaStream_t stream = nullptr;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, highest ? greatest : least));
  return stream;
}

template <class Function>
Function driver_function(const char* name, unsigned version) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  check(cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess) check(cudaErrorSymbolNotFound);
  return reinterpret_cast<Function>(function);
}

/// What the calls beside a kernel work on. It lives until the process ends.
struct Objects {
  int* go = nullptr;
  void *memory = nullptr, *allocated = nullptr, *pinned = nullptr;
  std::vector<char> page = std::vector<char>(8 << 20);
  cudaMemPool_t pool = nullptr;
  cudaStream_t spinning = nullptr, side = nullptr;
  cudaEvent_t event = nullptr;

  Objects() {
    check(cudaHostAlloc(reinterpret_cast<void**>(&go), 64, cudaHostAllocMapped | cudaHostAllocPortable));
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {cudaMemLocationTypeDevice, 0};
    check(cudaMemPoolCreate(&pool, &properties));
    spinning = make_stream(true);
    check(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    nothing<<<1, 1, 0, side>>>(nullptr);
    check(cudaMalloc(&memory, page.size()));
    check(cudaMemcpy(memory, page.data(), page.size(), cudaMemcpyDefault));
    check(cudaDeviceSynchronize());
  }
};

/// Makes the call in another thread while a kernel spins, which ends after a quarter of a second, or by itself after
/// three seconds.
void find_beside(Objects& objects, const char* name, const std::function<void()>& call) {
  *static_cast<volatile int*>(objects.go) = 0;
  spin<<<1, 1, 0, objects.spinning>>>(objects.go, 3'000'000'000ull);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::atomic<bool> done{false};
  const Clock::time_point begin = Clock::now();
  double took = 0;
  std::thread other([&] {
    check(cudaSetDevice(0));
    call();
    took = ms_since(begin);
    done.store(true, std::memory_order_release);  // pairs with the loads below
  });
  while (!done.load(std::memory_order_acquire) && ms_since(begin) < 250)
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  const bool beside = done.load(std::memory_order_acquire);
  *static_cast<volatile int*>(objects.go) = 1;
  other.join();
  check(cudaStreamSynchronize(objects.spinning));
  print_fact("beside", name, (beside ? "returns, " : "WAITS for the kernel, ") + number_text(took, "ms"));
}

void find_memory_calls(Objects& o) {
  find_beside(o, "cudaMalloc 4 KiB", [&] { check(cudaMalloc(&o.allocated, 4096)); });
  find_beside(o, "cudaFree 4 KiB", [&] { check(cudaFree(o.allocated)); });
  find_beside(o, "cudaMalloc 256 MiB", [&] { check(cudaMalloc(&o.allocated, 256 << 20)); });
  find_beside(o, "cudaFree 256 MiB", [&] { check(cudaFree(o.allocated)); });
  find_beside(o, "cudaHostAlloc 16 MiB",
              [&] { check(cudaHostAlloc(&o.pinned, 16 << 20, cudaHostAllocPortable | cudaHostAllocMapped)); });
  find_beside(o, "cudaFreeHost", [&] { check(cudaFreeHost(o.pinned)); });
  find_beside(o, "cudaMallocFromPoolAsync 64 MiB, and its end", [&] {
    check(cudaMallocFromPoolAsync(&o.allocated, 64 << 20, o.pool, o.side));
    check(cudaStreamSynchronize(o.side));
  });
  find_beside(o, "cudaFreeAsync", [&] { check(cudaFreeAsync(o.allocated, o.side)); });
  find_beside(o, "cudaIpcGetMemHandle", [&] {
    cudaIpcMemHandle_t handle;
    check(cudaIpcGetMemHandle(&handle, o.memory));
  });
}

void capture_a_graph() {
  cudaGraph_t recorded = nullptr;
  cudaGraphExec_t graph = nullptr;
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  nothing<<<1, 1, 0, stream>>>(nullptr);
  check(cudaStreamEndCapture(stream, &recorded));
  check(cudaGraphInstantiate(&graph, recorded, 0));
  check(cudaGraphExecDestroy(graph));
  check(cudaGraphDestroy(recorded));
  check(cudaStreamDestroy(stream));
}

void find_stream_calls(Objects& o) {
  find_beside(o, "cudaStreamCreate and Destroy", [] { check(cudaStreamDestroy(make_stream(false))); });
  find_beside(o, "an event on the legacy stream, and its end", [&] {
    check(cudaEventRecord(o.event, cudaStreamLegacy));
    check(cudaEventSynchronize(o.event));
  });
  find_beside(o, "cudaMemcpy 8 MiB, pageable, to the device",
              [&] { check(cudaMemcpy(o.memory, o.page.data(), o.page.size(), cudaMemcpyDefault)); });
  find_beside(o, "cudaMemcpy 8 MiB, pageable, from the device",
              [&] { check(cudaMemcpy(o.page.data(), o.memory, o.page.size(), cudaMemcpyDefault)); });
  find_beside(o, "cudaMemsetAsync on another stream, and its end", [&] {
    check(cudaMemsetAsync(o.memory, 0, 4096, o.side));
    check(cudaStreamSynchronize(o.side));
  });
  find_beside(o, "cudaFuncGetAttributes of a kernel that is not loaded", [] {
    cudaFuncAttributes attributes;
    check(cudaFuncGetAttributes(&attributes, loaded_late));
  });
  find_beside(o, "the first launch of a kernel with 4.8 KiB of stack", [&] {
    deep<<<1, 1, 0, o.side>>>(nullptr, 3);
    check(cudaStreamSynchronize(o.side));
  });
  find_beside(o, "a graph: capture, instantiate, destroy", capture_a_graph);
}

/// Whether so many kernels meet, on streams that are put to use one after the other.
bool all_meet(int kernels, bool highest, int each, unsigned* words) {
  std::vector<cudaStream_t> streams(static_cast<std::size_t>(kernels));
  for (cudaStream_t& stream : streams) stream = make_stream(highest);
  check(cudaMemset(words, 0, 256));
  check(cudaDeviceSynchronize());
  for (const cudaStream_t stream : streams)
    for (int i = 0; i < each; ++i)
      meet<<<1, 32, 0, stream>>>(words + 2 * i, words + 2 * i + 1, static_cast<unsigned>(kernels), 150'000'000ull);
  check(cudaDeviceSynchronize());
  unsigned seen[4] = {};
  check(cudaMemcpy(seen, words, sizeof seen, cudaMemcpyDeviceToHost));
  for (const cudaStream_t stream : streams) check(cudaStreamDestroy(stream));
  return seen[2 * each - 1] == static_cast<unsigned>(kernels) && seen[1] == static_cast<unsigned>(kernels);
}

void find_meetings() {
  unsigned* words = nullptr;
  check(cudaMalloc(reinterpret_cast<void**>(&words), 256));
  for (const bool highest : {false, true}) {
    for (const int each : {1, 2}) {
      int most = 0;
      for (const int kernels : {2, 4, 8, 9, 12, 16, 24, 32}) {
        if (!all_meet(kernels, highest, each, words)) break;
        most = kernels;
      }
      const std::string name = std::string(highest ? "highest" : "normal") + " priority, " + std::to_string(each);
      print_fact("meet", name + " on a stream", std::to_string(most) + " streams");
    }
  }
  check(cudaFree(words));
}

/// Puts a kernel and a copy on 16 streams of each priority, while another stream waits for a word that the host writes
/// a tenth of a second later.
void find_held_up(bool highest) {
  constexpr std::size_t kEach = 16;
  cuuint64_t* word = nullptr;
  void *memory = nullptr, *pinned = nullptr;
  check(cudaHostAlloc(reinterpret_cast<void**>(&word), 64, cudaHostAllocPortable | cudaHostAllocMapped));
  check(cudaMalloc(&memory, 1 << 20));
  check(cudaHostAlloc(&pinned, 1 << 20, 0));
  *word = 0;
  const cudaStream_t waiting = make_stream(highest);
  std::vector<cudaStream_t> streams;
  for (std::size_t i = 0; i < 2 * kEach; ++i) streams.push_back(make_stream(i >= kEach));
  check(cudaDeviceSynchronize());
  const auto wait = driver_function<PFN_cuStreamWaitValue64_v11070>("cuStreamWaitValue64", 11070);
  const bool waits = wait != nullptr &&
                     wait(waiting, reinterpret_cast<CUdeviceptr>(word), 1, CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS;
  for (const cudaStream_t stream : streams) {
    nothing<<<1, 1, 0, stream>>>(nullptr);
    check(cudaMemcpyAsync(pinned, memory, 1 << 16, cudaMemcpyDeviceToHost, stream));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  int ended[2] = {};
  for (std::size_t i = 0; i < streams.size(); ++i) ended[i / kEach] += cudaStreamQuery(streams[i]) == cudaSuccess;
  (void)cudaGetLastError();
  *static_cast<volatile cuuint64_t*>(word) = 1;
  check(cudaDeviceSynchronize());
  const std::string value =
      std::to_string(ended[0]) + " of 16 normal and " + std::to_string(ended[1]) + " of 16 highest streams go on";
  print_fact("wait", std::string("a stream of ") + (highest ? "highest" : "normal") + " priority waits for a word",
             waits ? value : "error: cuStreamWaitValue64 is not there or fails");
  for (const cudaStream_t stream : streams) check(cudaStreamDestroy(stream));
  check(cudaStreamDestroy(waiting));
  check(cudaFree(memory));
  check(cudaFreeHost(pinned));
  check(cudaFreeHost(word));
}

using Call = std::function<void(cudaStream_t, void*)>;

/// Prints the slowest thread's time of a call.
void find_cost(const char* name, std::size_t threads, const Call& call) {
  constexpr int kCalls = 400;
  std::vector<double> us(threads);
  std::vector<std::thread> running;
  std::atomic<std::size_t> ready{0};
  for (std::size_t i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      check(cudaSetDevice(0));
      cudaStream_t stream = nullptr;
      void* memory = nullptr;
      check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      check(cudaMalloc(&memory, 4096));
      call(stream, memory);
      check(cudaStreamSynchronize(stream));
      ++ready;
      while (ready < threads) std::this_thread::yield();
      const Clock::time_point begin = Clock::now();
      for (int k = 0; k < kCalls; ++k) call(stream, memory);
      us[i] = ms_since(begin) * 1e3 / kCalls;
      check(cudaStreamSynchronize(stream));
      check(cudaStreamDestroy(stream));
      check(cudaFree(memory));
    });
  }
  for (std::thread& thread : running) thread.join();
  print_fact("cost", std::string(name) + ", threads: " + std::to_string(threads),
             number_text(*std::max_element(us.begin(), us.end()), "us"));
}

void find_event_costs(std::size_t threads) {
  find_cost("event: create, record, destroy", threads, [](cudaStream_t stream, void*) {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    check(cudaEventRecord(event, stream));
    check(cudaEventDestroy(event));
  });
  find_cost("event on the legacy stream, and a wait for it", threads, [](cudaStream_t stream, void*) {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    check(cudaEventRecord(event, cudaStreamLegacy));
    check(cudaStreamWaitEvent(stream, event, 0));
    check(cudaEventDestroy(event));
  });
}

void find_costs(std::size_t threads) {
  static const Parameters parameters{};
  find_cost("launch with 3.6 kB of parameters", threads,
            [](cudaStream_t stream, void*) { with_parameters<<<1, 512, 0, stream>>>(parameters); });
  find_cost("launch with a pointer", threads,
            [](cudaStream_t stream, void*) { nothing<<<1, 512, 0, stream>>>(nullptr); });
  find_event_costs(threads);
  find_cost("cudaStreamGetCaptureInfo", threads, [](cudaStream_t stream, void*) {
    cudaStreamCaptureStatus status;
    unsigned long long id = 0;
    check(cudaStreamGetCaptureInfo(stream, &status, &id));
  });
  const auto ask = driver_function<PFN_cuPointerGetAttributes_v7000>("cuPointerGetAttributes", 7000);
  if (ask == nullptr) return print_fact("cost", "cuPointerGetAttributes", "not there");
  find_cost("cuPointerGetAttributes, 3 of them", threads, [ask](cudaStream_t, void* memory) {
    unsigned type = 0, managed = 0;
    int device = -1;
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void* places[] = {&type, &managed, &device};
    if (ask(3, names, places, reinterpret_cast<CUdeviceptr>(memory)) != CUDA_SUCCESS) check(cudaErrorUnknown);
  });
}

void find_device() {
  cudaDeviceProp properties{};
  int driver = 0;
  std::size_t stack = 0;
  check(cudaGetDeviceProperties(&properties, 0));
  print_fact("device", "name", properties.name);
  print_fact("device", "multiprocessors", std::to_string(properties.multiProcessorCount));
  check(cudaDriverGetVersion(&driver));
  print_fact("device", "driver", std::to_string(driver));
  check(cudaDeviceGetLimit(&stack, cudaLimitStackSize));
  print_fact("device", "limit of the stack", std::to_string(stack) + " bytes");
}

}  // namespace
}  // namespace tutti::bench

int main() {
  using namespace tutti::bench;
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "gpu_facts: no GPU: %s\n", cudaGetErrorString(error));
    return 77;
  }
  find_device();
  static Objects objects;
  find_memory_calls(objects);
  find_stream_calls(objects);
  find_meetings();
  for (const bool highest : {false, true}) find_held_up(highest);
  for (const std::size_t threads : {1, 4}) find_costs(threads);
  return 0;
}
