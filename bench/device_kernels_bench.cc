// Bandwidth of the CUDA kernels: all types and operations at 64 MiB, some at other sizes, more sources, fewer blocks
// and other alignments. Bytes are those read and written; of_copy compares with the device's own copy between two of
// its buffers, which moves the same bytes in the same way. A time is that of events on the stream around ten launches,
// so that the launch and the end of a kernel weigh little; the caches are passed over by taking other buffers each
// time. Where there is no GPU it prints a line on stderr and ends with exit code 77.
//   device_kernels_bench --benchmark_filter='sum/.*/67108864/k2'
#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "kernels/device/device_kernels.h"
#include "kernels/kernels.h"

namespace tutti {
namespace {

constexpr std::size_t kMib = 1024 * 1024;
constexpr std::size_t kArena = 2048 * kMib;  ///< several times the caches of any card
constexpr int kLaunches = 10;                ///< between two events
constexpr int kBatches = 9;                  ///< of launches, for each benchmark

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

/// What all benchmarks share: the memory, two events, how fast the device copies.
struct Device {
  unsigned char* arena = nullptr;
  cudaEvent_t start{}, stop{};
  unsigned processors = 0;
  std::map<std::size_t, double> copy_rates;  ///< bytes a second, by the bytes that a copy moves
  bool filled = false;                       ///< the arena, with `numbers`; their sums stay of modest size
  DataType numbers = DataType::kFloat32;

  /// Seconds of each of kLaunches launches in a row: `launch(set)`, `set` counting on from *set to below `sets`.
  template <class Launch>
  double seconds(const Launch& launch, std::size_t sets, std::size_t* set) const {
    check(cudaEventRecord(start, nullptr), "event");
    for (int i = 0; i < kLaunches; ++i) {
      launch(*set);
      *set = (*set + 1) % sets;
    }
    check(cudaEventRecord(stop, nullptr), "event");
    check(cudaEventSynchronize(stop), "waiting");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start, stop), "time");
    return milliseconds * 1e-3 / kLaunches;
  }

  /// Bytes a second that the device's own copy moves, `moved` with those read and those written. It is measured once.
  double copy_rate(std::size_t moved);
};

/// Numbers of modest size in the type, for as many bytes as are copied around the arena; integers are any bits.
std::vector<unsigned char> numbers(DataType type, std::size_t bytes) {
  std::mt19937_64 random(1);
  std::vector<unsigned char> row(bytes);
  const std::size_t count = bytes / size_of(type).value;
  std::vector<float> floats(count);
  for (float& value : floats) value = static_cast<float>(static_cast<double>(random()) / 0x1p63 - 1);
  if (type == DataType::kFloat64) {
    for (std::size_t i = 0; i < count; ++i) reinterpret_cast<double*>(row.data())[i] = floats[i];
  } else if (type == DataType::kFloat32) {
    std::copy_n(reinterpret_cast<const unsigned char*>(floats.data()), bytes, row.data());
  } else if (is_float(type)) {
    narrow_floats(type, row.data(), floats.data(), count);
  } else {
    for (unsigned char& byte : row) byte = static_cast<unsigned char>(random());
  }
  return row;
}

/// Fills the arena with numbers of the type, unless it is.
void fill(Device& device, DataType type) {
  if (device.filled && device.numbers == type) return;
  const std::vector<unsigned char> row = numbers(type, 8 * kMib);
  check(cudaMemcpy(device.arena, row.data(), row.size(), cudaMemcpyHostToDevice), "filling");
  for (std::size_t at = row.size(); at < kArena; at *= 2) {
    check(cudaMemcpy(device.arena + at, device.arena, std::min(at, kArena - at), cudaMemcpyDeviceToDevice), "filling");
  }
  device.filled = true;
  device.numbers = type;
}

struct Case {
  RedOp op;
  DataType type;
  std::size_t bytes = 64 * kMib;
  int sources = 2;
  unsigned blocks = 0;    ///< 0: eight for each processor
  std::size_t shift = 0;  ///< bytes by which the sources are aligned otherwise than the destination
};

std::string name_of(const Case& what) {
  return std::string(tutti::name_of(what.op)) + "/" + tutti::name_of(what.type) + "/" + std::to_string(what.bytes) +
         "/k" + std::to_string(what.sources) + (what.blocks != 0 ? "/b" + std::to_string(what.blocks) : "") +
         (what.shift != 0 ? "/shift" + std::to_string(what.shift) : "");
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double Device::copy_rate(std::size_t moved) {
  double& rate = copy_rates[moved];
  if (rate > 0) return rate;
  const std::size_t pitch = round_up(moved / 2 + 256, 256), sets = std::max<std::size_t>(1, kArena / (2 * pitch));
  const auto copy = [&](std::size_t set) {
    unsigned char* const to = arena + 2 * set * pitch;
    check(cudaMemcpyAsync(to, to + pitch, moved / 2, cudaMemcpyDeviceToDevice, nullptr), "copying");
  };
  std::size_t set = 0;
  std::vector<double> times;
  for (int i = 0; i <= 15; ++i) {
    const double time = seconds(copy, sets, &set);
    if (i > 0) times.push_back(time);
  }
  rate = static_cast<double>(moved) / median(times);
  return rate;
}

/// `launch(set)` for one set of buffers after the other, `set` counting from 0 to below `sets`.
template <class Launch>
void run(benchmark::State& state, Device& device, std::size_t sets, std::size_t moved, const Launch& launch) {
  const double copies = device.copy_rate(std::min(moved, kArena - kMib));
  std::vector<double> times;
  std::size_t set = 0;
  for (int warm = 0; warm < 3; ++warm) launch(set);
  for (auto unused : state) {
    (void)unused;
    times.push_back(device.seconds(launch, sets, &set));
    state.SetIterationTime(times.back());
  }
  if (times.empty()) return;
  const double time = median(times);
  state.counters["median_us"] = time * 1e6;
  state.counters["GB/s"] = static_cast<double>(moved) / time * 1e-9;
  state.counters["of_copy"] = static_cast<double>(moved) / time / copies;
}

void run_case(benchmark::State& state, Device& device, const Case& what) {
  fill(device, what.type);
  const std::size_t pitch = round_up(what.bytes + 256, 256);
  const std::size_t buffers = static_cast<std::size_t>(what.sources) + 1;
  const std::size_t sets = std::max<std::size_t>(1, kArena / (pitch * buffers));
  const unsigned blocks = what.blocks != 0 ? what.blocks : 8 * device.processors;
  const std::uint32_t divisor = what.op == RedOp::kAvg ? static_cast<std::uint32_t>(what.sources) : 1;
  run(state, device, sets, buffers * what.bytes, [&](std::size_t set) {
    unsigned char* const base = device.arena + set * pitch * buffers;
    std::vector<const void*> sources;
    for (int k = 0; k < what.sources; ++k) sources.push_back(base + (k + 1) * pitch + what.shift);
    void* const destination = base;
    const Status status = device::launch_reduce(
        {sources.data(), what.sources, &destination, 1, what.bytes / size_of(what.type).value, divisor}, what.type,
        what.op, blocks, nullptr);
    if (!status.ok()) state.SkipWithError(status.text().c_str());
  });
}

void run_copy(benchmark::State& state, Device& device, bool own) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::size_t pitch = round_up(bytes + 256, 256);
  const std::size_t sets = std::max<std::size_t>(1, kArena / (2 * pitch));
  run(state, device, sets, 2 * bytes, [&](std::size_t set) {
    void* const to = device.arena + 2 * set * pitch;
    const void* const from = device.arena + (2 * set + 1) * pitch;
    if (!own) return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, nullptr), "copying");
    const Status status = device::launch_copy(from, &to, 1, Bytes{bytes}, 8 * device.processors, nullptr);
    if (!status.ok()) state.SkipWithError(status.text().c_str());
  });
}

void add(Device& device, const Case& what) {
  benchmark::RegisterBenchmark(name_of(what).c_str(),
                               [&device, what](benchmark::State& state) { run_case(state, device, what); })
      ->UseManualTime()
      ->Iterations(kBatches);
}

void add_all(Device& device) {
  for (const auto& [name, own] : {std::pair{"device_copy", false}, {"copy_kernel", true}}) {
    auto* family = benchmark::RegisterBenchmark(
        name, [&device, own = own](benchmark::State& state) { run_copy(state, device, own); });
    for (std::size_t bytes : {64 * 1024 * std::size_t{1}, kMib, 16 * kMib, 64 * kMib, 512 * kMib}) {
      family->Arg(static_cast<std::int64_t>(bytes));
    }
    family->UseManualTime()->Iterations(kBatches);
  }
  for (int type = 0; type < kDataTypes; ++type) {
    for (int op = 0; op < kRedOps; ++op) {
      const Case what{static_cast<RedOp>(op), static_cast<DataType>(type)};
      if (reduce_kernel(what.type, what.op) != nullptr) add(device, what);
    }
  }
  for (DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kFloat8e4m3}) {
    for (std::size_t bytes : {64 * std::size_t{1024}, kMib, 16 * kMib, 512 * kMib})
      add(device, {RedOp::kSum, type, bytes});
    for (int sources : {1, 3, 4, 8}) add(device, {RedOp::kSum, type, 64 * kMib, sources});
    for (unsigned blocks : {16u, 32u, 64u, 132u}) add(device, {RedOp::kSum, type, 64 * kMib, 2, blocks});
    add(device, {RedOp::kSum, type, 64 * kMib, 2, 0, size_of(type).value});
  }
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    std::fprintf(stderr, "device_kernels_bench: no GPU: %s\n", cudaGetErrorString(error));
    return 77;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  tutti::Device device;
  cudaDeviceProp properties;
  tutti::check(cudaGetDeviceProperties(&properties, 0), "properties");
  device.processors = static_cast<unsigned>(properties.multiProcessorCount);
  tutti::check(cudaMalloc(reinterpret_cast<void**>(&device.arena), tutti::kArena), "memory");
  tutti::check(cudaEventCreate(&device.start), "event");
  tutti::check(cudaEventCreate(&device.stop), "event");
  tutti::fill(device, tutti::DataType::kFloat32);
  benchmark::AddCustomContext("card", properties.name);
  benchmark::AddCustomContext("device_copy_GB/s", std::to_string(device.copy_rate(1024 * tutti::kMib) * 1e-9));
  tutti::add_all(device);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
