// Throughput of the CPU kernels: a selection of types, operations, sizes, numbers of sources and instruction sets; the
// latency of tiny reductions; copies. GB/s are bytes of result (one source's bytes), not of all memory traffic.
//   kernels_bench --benchmark_filter='sum/float32/.*/avx512'
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/copy.h"
#include "kernels/kernels.h"

namespace tutti {
namespace {

using Memory = std::unique_ptr<unsigned char, decltype(&std::free)>;

constexpr std::size_t kLine = 64, kPage = 4096;

/// Touched memory of numbers that are small in every type.
Memory allocate(std::size_t bytes, std::size_t alignment = kLine) {
  auto* memory = static_cast<unsigned char*>(std::aligned_alloc(alignment, round_up(bytes, alignment)));
  std::memset(memory, 1, round_up(bytes, alignment));
  return {memory, &std::free};
}

struct Reduce {
  RedOp op;
  DataType type;
  std::size_t bytes;
  int sources;
  std::string simd;
  bool stream = false;
  ReduceOrder order = ReduceOrder::kLeft;
};

void run_reduce(benchmark::State& state, const Reduce& what) {
  select_simd(what.simd);
  if (what.simd != simd_name()) return state.SkipWithError("not on this processor");
  const ReduceKernel kernel = reduce_kernel(what.type, what.op);
  std::vector<Memory> sources;
  std::vector<const void*> pointers;
  for (int k = 0; k < what.sources; ++k) {
    sources.push_back(allocate(what.bytes));
    pointers.push_back(sources.back().get());
  }
  const Memory destination = allocate(what.bytes);
  const std::size_t count = what.bytes / size_of(what.type).value;
  const ReduceArgs args{pointers.data(), what.sources, destination.get(), nullptr, count, 1, what.stream, what.order};
  for (auto unused : state) {
    (void)unused;
    kernel(args);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * what.bytes));
  select_simd("auto");
}

void add(const Reduce& what) {
  const std::string name = std::string(name_of(what.op)) + "/" + name_of(what.type) + "/" + std::to_string(what.bytes) +
                           "/k" + std::to_string(what.sources) + (what.stream ? "/stream" : "") +
                           (what.order == ReduceOrder::kTree ? "/tree/" : "/") + what.simd;
  benchmark::RegisterBenchmark(name.c_str(), [what](benchmark::State& state) { run_reduce(state, what); });
}

void add_reductions() {
  constexpr std::size_t kKib = 1024;
  for (const char* simd : {"baseline", "avx2", "avx512"}) {
    for (std::size_t bytes : {4 * kKib, 256 * kKib, 16 * kKib * kKib}) {
      for (DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kFloat16, DataType::kFloat64,
                            DataType::kFloat8e4m3, DataType::kFloat8e5m2}) {
        add({RedOp::kSum, type, bytes, 2, simd});
        add({RedOp::kMin, type, bytes, 2, simd});
      }
      add({RedOp::kMax, DataType::kInt8, bytes, 2, simd});
      add({RedOp::kProd, DataType::kInt8, bytes, 2, simd});
      add({RedOp::kSum, DataType::kBool, bytes, 2, simd});
      for (int sources : {3, 4, 8}) add({RedOp::kSum, DataType::kFloat32, bytes, sources, simd});
      for (DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kFloat8e4m3}) {
        if (type != DataType::kFloat32) add({RedOp::kSum, type, bytes, 8, simd});
        for (int sources : {4, 8, 13}) add({RedOp::kSum, type, bytes, sources, simd, false, ReduceOrder::kTree});
      }
      add({RedOp::kSum, DataType::kFloat32, bytes, 2, simd, true});
    }
    for (std::size_t count : {1, 2, 3, 7, 8, 16, 31}) {
      add({RedOp::kSum, DataType::kFloat32, 4 * count, 2, simd});
      add({RedOp::kSum, DataType::kBfloat16, 2 * count, 2, simd});
    }
  }
}

/// Scaling (the factor is 1) and conversions; bytes are those of the small type.
enum class Map { kScale, kNarrow, kWiden };

void run_map(benchmark::State& state, Map map, DataType type, const std::string& simd) {
  select_simd(simd);
  if (simd != simd_name()) return state.SkipWithError("not on this processor");
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::size_t count = bytes / size_of(type).value;
  const Memory small = allocate(bytes);
  const Memory other = allocate(std::max(bytes, 4 * count));
  auto* const floats = reinterpret_cast<float*>(other.get());
  float factor = 1;
  const float one = 1;
  narrow_floats(type, &factor, &one, 1);
  for (auto unused : state) {
    (void)unused;
    if (map == Map::kScale) {
      scale(type, other.get(), small.get(), count, &factor);
    } else if (map == Map::kNarrow) {
      narrow_floats(type, small.get(), floats, count);
    } else {
      widen_floats(type, floats, small.get(), count, false);
    }
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * bytes));
  select_simd("auto");
}

void add_maps() {
  for (const char* simd : {"baseline", "avx2", "avx512"}) {
    for (const auto& [name, map] :
         {std::pair{"scale", Map::kScale}, {"narrow", Map::kNarrow}, {"widen", Map::kWiden}}) {
      for (DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8e4m3,
                            DataType::kFloat8e5m2}) {
        if (type == DataType::kFloat32 && map != Map::kScale) continue;
        const std::string full = std::string(name) + "/" + name_of(type) + "/" + simd;
        const std::string set = simd;
        auto* family = benchmark::RegisterBenchmark(
            full.c_str(), [m = map, type, set](benchmark::State& state) { run_map(state, m, type, set); });
        family->Arg(4096)->Arg(262144)->Arg(16777216);
      }
    }
  }
}

enum class Copier { kMemcpy, kString, kCopy, kStream, kTwice };

/// The destination's place in its page is `after` bytes after the source's.
void run_copy(benchmark::State& state, Copier copier, std::size_t after) {
  const Bytes bytes{static_cast<std::size_t>(state.range(0))};
  const Memory source = allocate(bytes.value, kPage);
  const Memory copied = allocate(bytes.value + after, kPage);
  unsigned char* const destination = copied.get() + after;
  const Memory second = allocate(bytes.value);
  for (auto unused : state) {
    (void)unused;
    if (copier == Copier::kMemcpy) {
      std::memcpy(destination, source.get(), bytes.value);
    } else if (copier == Copier::kString) {
      copy_by_string(destination, source.get(), bytes.value);
    } else if (copier == Copier::kTwice) {
      copy_bytes_twice(destination, second.get(), source.get(), bytes, false);
    } else {
      copy_bytes(destination, source.get(), bytes, copier == Copier::kStream);
    }
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * bytes.value));
}

void add_copies() {
  // Large blocks of malloc begin 16 bytes after a page does, slots at one.
  constexpr std::size_t kLargeBlock = 16;
  const std::tuple<const char*, Copier, std::size_t> copiers[] = {{"memcpy", Copier::kMemcpy, 0},
                                                                  {"memcpy/16_after", Copier::kMemcpy, kLargeBlock},
                                                                  {"copy_by_string", Copier::kString, 0},
                                                                  {"copy_bytes", Copier::kCopy, 0},
                                                                  {"copy_bytes/16_after", Copier::kCopy, kLargeBlock},
                                                                  {"copy_bytes/stream", Copier::kStream, 0},
                                                                  {"copy_bytes_twice", Copier::kTwice, 0}};
  for (const auto& [name, copier, after] : copiers) {
    auto* family = benchmark::RegisterBenchmark(
        name, [copier = copier, after = after](benchmark::State& state) { run_copy(state, copier, after); });
    for (std::int64_t bytes : {8, 24, 64, 100, 256, 512, 1024, 2048, 4096, 32768, 262144, 1048576, 16777216})
      family->Arg(bytes);
  }
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  tutti::add_reductions();
  tutti::add_maps();
  tutti::add_copies();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
