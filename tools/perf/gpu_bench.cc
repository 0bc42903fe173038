#include "gpu_bench.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "ranks.h"
#include "turn.h"

namespace tutti::perf {
namespace {

constexpr std::size_t kCopyBytes = 256ULL << 20;  // several times the caches of any card
constexpr int kCopies = 15;
constexpr int kWindow = 64;          // operations that are put before the host looks whether the device keeps up
constexpr int kSamplesAtMost = 500;  // each has an event

}  // namespace

class GpuBench::Graph {
 public:
  explicit Graph(Gpu& gpu) : gpu_(gpu) {}
  ~Graph() {
    if (graph_ != nullptr) gpu_.destroy_graph(graph_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  Gpu::Graph* target() { return &graph_; }
  Gpu::Graph get() const { return graph_; }

 private:
  Gpu& gpu_;
  Gpu::Graph graph_ = nullptr;
};

class GpuBench::Events {
 public:
  explicit Events(Gpu& gpu) : gpu_(gpu) {}
  ~Events() {
    for (const Gpu::Event event : events_) gpu_.destroy_event(event);
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  tuttiResult_t make(std::size_t count) {
    while (events_.size() < count) {
      Gpu::Event event = nullptr;
      PERF_TRY(gpu_.create_event(&event));
      events_.push_back(event);
    }
    return tuttiSuccess;
  }
  Gpu::Event operator[](std::size_t i) const { return events_[i]; }

 private:
  Gpu& gpu_;
  std::vector<Gpu::Event> events_;
};

struct GpuBench::Work {
  std::function<tuttiResult_t()> put;
  int operations = 1;  ///< how many one put() has

  /// So many put() come between two looks whether the device keeps up.
  int window() const { return std::max(kWindow / operations, 1); }
};

GpuBench::GpuBench(tuttiComm_t comm, int rank, int ranks, const Options& options, Gpu& gpu)
    : Bench(comm, rank, ranks, options), gpu_(gpu), device_(device_of(options, rank)) {
  for (int i = 0; i < options.gpu.devices; ++i) facts_.devices.push_back({gpu.name(i), 0});
}

GpuBench::~GpuBench() {
  if (stream_ != nullptr) tuttiStreamDestroy(stream_);
  if (cuda_ != nullptr) gpu_.destroy_stream(cuda_);
  for (std::byte* const memory : {send_, recv_})
    if (memory != nullptr) tuttiMemFree(memory);
}

std::string GpuBench::cause() const {
  if (!refusal_.empty()) return refusal_;
  return gpu_fault().empty() ? Bench::cause() : gpu_fault();
}

/// The library knows these of collectives only.
tuttiResult_t GpuBench::name_paths(const Row& row, RowResult* result) {
  result->transport = result->algorithm = "N/A";
  if (row.collective.collective == Collective::kSendRecv) return tuttiSuccess;
  return describe(row, comm(), &result->transport, &result->algorithm, "device_");
}

bool GpuBench::allocate(std::size_t bytes) {
  const std::size_t capacity = std::max<std::size_t>(bytes, 4096);
  tuttiResult_t code = open();
  if (code == tuttiSuccess) code = measure_copies();
  if (code == tuttiSuccess) code = take_memory(capacity);
  // Nobody begins before all have their memory, because a device may wait for its running kernels while it allocates.
  if (code == tuttiSuccess) code = tuttiBarrier(comm(), nullptr);
  if (code == tuttiSuccess) return true;
  if (text_.empty()) text_ = std::string("device ") + std::to_string(device_) + ": " + cause();
  return false;
}

tuttiResult_t GpuBench::open() {
  PERF_TRY(gpu_.create_stream(&cuda_));
  return tuttiStreamFromCuda(&stream_, cuda_);
}

tuttiResult_t GpuBench::take_memory(std::size_t bytes) {
  for (std::byte** const memory : {&send_, &recv_}) {
    void* made = nullptr;
    const tuttiResult_t code = tuttiMemAllocDevice(&made, bytes, device_);
    *memory = static_cast<std::byte*>(made);
    if (code == tuttiSuccess) continue;
    text_ = "device " + std::to_string(device_) + " has no memory for two buffers of " + size_text(bytes) +
            "B a rank; lower -e or --ranks-per-gpu: " + tuttiGetLastError(nullptr);
    return code;
  }
  if (options().checks > 0 && !(host_send_.map(bytes, false) && host_recv_.map(bytes, false))) {
    text_ = "there is no host memory for two buffers of " + size_text(bytes) + "B; lower -e, or -c 0";
    return tuttiSystemError;
  }
  buffers_ = {send_, recv_};
  // This is done once while no kernel runs, so that the device loads then what it loads at its first copy.
  PERF_TRY(gpu_.clear(send_, bytes, cuda_));
  PERF_TRY(gpu_.clear(recv_, bytes, cuda_));
  return gpu_.synchronize(cuda_);
}

/// The first rank of each device measures, while the others wait. With a launcher nothing is measured, because between
/// hosts a device's number says nothing.
tuttiResult_t GpuBench::measure_copies() {
  std::vector<double> mine(facts_.devices.size(), 0.0), all(mine.size(), 0.0);
  const auto at = static_cast<std::size_t>(device_);
  if (rank() == device_ && launcher_name() == nullptr) PERF_TRY(measure_copy(&mine[at]));
  PERF_TRY(tuttiAllReduce(mine.data(), all.data(), mine.size(), tuttiFloat64, tuttiSum, comm(), nullptr));
  for (std::size_t i = 0; i < all.size(); ++i) facts_.devices[i].copy_rate = all[i];
  return tuttiSuccess;
}

tuttiResult_t GpuBench::measure_copy(double* rate) {
  std::size_t free = 0;
  PERF_TRY(gpu_.free_memory(&free));
  const std::size_t bytes = std::min(kCopyBytes, free / 8);
  void* memory = nullptr;
  PERF_TRY(tuttiMemAllocDevice(&memory, 2 * bytes, device_));
  const std::unique_ptr<void, void (*)(void*)> owner(memory, [](void* all) { tuttiMemFree(all); });
  Events events(gpu_);
  PERF_TRY(events.make(2));
  std::vector<double> seconds;
  for (int i = 0; i <= kCopies; ++i) {
    PERF_TRY(gpu_.record(events[0], cuda_));
    PERF_TRY(gpu_.copy(memory, static_cast<std::byte*>(memory) + bytes, bytes, cuda_));
    PERF_TRY(gpu_.record(events[1], cuda_));
    PERF_TRY(gpu_.wait_for(events[1]));
    double one = 0;
    PERF_TRY(gpu_.seconds_between(events[0], events[1], &one));
    if (i > 0) seconds.push_back(one);
  }
  *rate = 2.0 * static_cast<double>(bytes) / median(seconds);
  return tuttiSuccess;
}

/// Waits for all that is on the stream, and returns its first error.
tuttiResult_t GpuBench::settle() const {
  PERF_TRY(tuttiStreamSynchronize(stream_));
  PERF_TRY(gpu_.synchronize(cuda_));
  if (options().gpu.graph_calls == 0) return tuttiSuccess;
  tuttiResult_t replayed = tuttiSuccess;  // asked for, because tuttiStreamSynchronize() does not know of graphs
  PERF_TRY(tuttiCommGetAsyncError(comm(), &replayed));
  return replayed;
}

tuttiResult_t GpuBench::clear(const Row& row) {
  PERF_TRY(gpu_.clear(send_, row.send_count * row.type.bytes, cuda_));
  PERF_TRY(gpu_.clear(recv_, row.recv_count * row.type.bytes, cuda_));
  return gpu_.synchronize(cuda_);
}

tuttiResult_t GpuBench::try_once(const Row& row, const Call& call, const Check& check, bool in_place,
                                 std::uint64_t* wrong) {
  const Buffers host{host_send_.data(), host_recv_.data()};
  const std::size_t sent = row.send_count * row.type.bytes, received = row.recv_count * row.type.bytes;
  const Buffers bound = call.bind(buffers_, in_place);
  if (options().gpu.graph_calls > 0) {  // one call runs first, because a captured one must not have to set up things
    PERF_TRY(call.make(bound, stream_));
    PERF_TRY(settle());
  }
  check.prepare(host, in_place);
  PERF_TRY(gpu_.copy(send_, host.send, sent, cuda_));
  PERF_TRY(gpu_.copy(recv_, host.recv, received, cuda_));
  PERF_TRY(gpu_.synchronize(cuda_));
  PERF_TRY(make_once(call, bound, !in_place));
  PERF_TRY(gpu_.copy(host.send, send_, sent, cuda_));
  PERF_TRY(gpu_.copy(host.recv, recv_, received, cuda_));
  PERF_TRY(gpu_.synchronize(cuda_));
  *wrong += check.count_wrong(host, in_place);
  return tuttiSuccess;
}

/// Makes the call in the way in which it will be timed. A graph runs twice if the second time gives the same result
/// (`again`).
tuttiResult_t GpuBench::make_once(const Call& call, const Buffers& bound, bool again) {
  if (options().isolated) return call.make(bound);
  if (options().gpu.graph_calls == 0) {
    PERF_TRY(call.make(bound, stream_));
    return settle();
  }
  Graph graph(gpu_);
  PERF_TRY(capture(call, bound, 1, &graph));
  for (int i = 0; i < (again ? 2 : 1); ++i) PERF_TRY(gpu_.run(graph.get(), cuda_));
  return settle();
}

/// All ranks capture at the same time, while nothing of theirs runs.
tuttiResult_t GpuBench::capture(const Call& call, const Buffers& bound, int calls, Graph* graph) {
  PERF_TRY(tuttiBarrier(comm(), nullptr));
  PERF_TRY(gpu_.begin_capture(cuda_));
  tuttiResult_t made = tuttiSuccess;
  for (int i = 0; i < calls && made == tuttiSuccess; ++i) made = call.make(bound, stream_);
  if (made != tuttiSuccess) {
    refusal_ = std::string("captured into a CUDA graph: ") + tuttiGetLastError(comm());
  }
  const tuttiResult_t ended = gpu_.end_capture(cuda_, graph->target());
  if (made != tuttiSuccess) return made;  // the capture's own error follows from it
  PERF_TRY(ended);
  PERF_TRY(gpu_.synchronize(cuda_));
  return tuttiBarrier(comm(), nullptr);
}

tuttiResult_t GpuBench::take_times(const Call& call, const Buffers& bound, Timing* timing) {
  if (options().isolated) return Bench::take_times(call, bound, timing);
  Graph graph(gpu_);
  Work work;
  if (const int calls = options().gpu.graph_calls; calls > 0) {
    PERF_TRY(capture(call, bound, calls, &graph));
    work = {[&] { return gpu_.run(graph.get(), cuda_); }, calls};
  } else {
    work = {[&] { return call.make(bound, stream_); }, 1};
  }
  int repeats = 0;
  PERF_TRY(choose_repeats(work, &repeats));
  PERF_TRY(run_series(work, repeats, &timing->average));
  std::vector<double> samples;
  PERF_TRY(run_singly(work, std::min(repeats, kSamplesAtMost), &samples));
  summarise(std::move(samples), timing);
  return tuttiSuccess;
}

/// The number follows from the slowest rank's probe, so that it is the same on all ranks.
tuttiResult_t GpuBench::choose_repeats(const Work& work, int* repeats) {
  for (int i = 0; i < options().warmups; i += work.operations) PERF_TRY(work.put());
  PERF_TRY(settle());
  constexpr int kProbes = 3;
  double mine = 0, slowest = 0;
  PERF_TRY(run_series(work, kProbes, &mine));
  mine = std::max(mine * work.operations, 1e-8);
  PERF_TRY(tuttiAllReduce(&mine, &slowest, 1, tuttiFloat64, tuttiMax, comm(), nullptr));
  *repeats = options().iterations > 0 ? std::max(options().iterations / work.operations, 1) : repeats_for(slowest);
  return tuttiSuccess;
}

/// The host stays at most two windows ahead, because a full queue of launches could keep out a rank that its kernels
/// wait for.
tuttiResult_t GpuBench::run_series(const Work& work, int repeats, double* seconds) {
  Events events(gpu_);
  PERF_TRY(events.make(4));  // for begin, end and two windows
  PERF_TRY(tuttiBarrier(comm(), nullptr));
  PERF_TRY(work.put());
  PERF_TRY(gpu_.record(events[0], cuda_));
  for (int i = 0; i < repeats; ++i) {
    PERF_TRY(work.put());
    if ((i + 1) % work.window() != 0) continue;
    const auto window = static_cast<std::size_t>((i + 1) / work.window());
    PERF_TRY(gpu_.record(events[2 + window % 2], cuda_));
    PERF_TRY(gpu_.wait_for(events[2 + (window + 1) % 2]));
  }
  PERF_TRY(gpu_.record(events[1], cuda_));
  PERF_TRY(settle());
  double all = 0;
  PERF_TRY(gpu_.seconds_between(events[0], events[1], &all));
  *seconds = all / repeats / work.operations;
  return tuttiSuccess;
}

tuttiResult_t GpuBench::run_singly(const Work& work, int repeats, std::vector<double>* samples) {
  Events events(gpu_);
  const auto count = static_cast<std::size_t>(repeats), window = static_cast<std::size_t>(2 * work.window());
  PERF_TRY(events.make(count + 1));
  PERF_TRY(tuttiBarrier(comm(), nullptr));
  PERF_TRY(work.put());
  PERF_TRY(gpu_.record(events[0], cuda_));
  for (std::size_t i = 0; i < count; ++i) {
    PERF_TRY(work.put());
    PERF_TRY(gpu_.record(events[i + 1], cuda_));
    if (i >= window) PERF_TRY(gpu_.wait_for(events[i - window]));
  }
  PERF_TRY(settle());
  for (std::size_t i = 0; i < count; ++i) {
    double one = 0;
    PERF_TRY(gpu_.seconds_between(events[i], events[i + 1], &one));
    samples->push_back(one / work.operations);
  }
  return tuttiSuccess;
}

/// The floor is that of the device that needs longest to move its bytes at its own rate.
tuttiResult_t GpuBench::find_floor(const Row& row, const Call& call, bool in_place, double* seconds) {
  std::vector<double> mine(facts_.devices.size(), 0.0), all(mine.size(), 0.0);
  mine[static_cast<std::size_t>(device_)] = static_cast<double>(call.moves(in_place) * row.type.bytes);
  PERF_TRY(tuttiAllReduce(mine.data(), all.data(), mine.size(), tuttiFloat64, tuttiSum, comm(), nullptr));
  *seconds = 0;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (facts_.devices[i].copy_rate > 0) *seconds = std::max(*seconds, all[i] / facts_.devices[i].copy_rate);
  return tuttiSuccess;
}

}  // namespace tutti::perf
