// Measures the cost of running a schedule: a step of the interpreter, the fast path beside it, the whole way from the C
// function, and writing a schedule out.
#include <benchmark/benchmark.h>
#include <tutti/tutti.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "collectives/choice/catalogue.h"
#include "executor/cpu_executor.h"
#include "transport/shm/shm.h"

namespace tutti {
namespace {

class Patience final : public WaitMonitor {
 public:
  Status check(Rank, std::uint64_t) override { return {}; }
};

constexpr std::size_t kSlot = 64 * 1024;

void require(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.text().c_str());
  std::exit(1);
}

/// The executors of n ranks on one host.
std::vector<std::unique_ptr<Executor>> make_executors(int ranks) {
  ShmGeometry geometry;
  geometry.ranks = ranks;
  geometry.slot_bytes = Bytes{kSlot};
  std::vector<std::shared_ptr<Segment>> segments(static_cast<std::size_t>(ranks));
  for (auto& segment : segments) require(Segment::create(geometry.segment_bytes(), &segment));
  std::vector<std::unique_ptr<Executor>> executors;
  for (Rank rank{0}; rank.value < ranks; ++rank) {
    std::unique_ptr<ShmEndpoint> endpoint;
    require(ShmEndpoint::open(geometry, rank, segments, &endpoint));
    executors.push_back(std::make_unique<CpuExecutor<ShmEndpoint>>(
        std::move(endpoint), LadderPolicy::choose(ranks > 2, -1), PointToPointPolicy{Lane{0}}));
  }
  return executors;
}

/// 128 steps that store 4 bytes: nothing but dispatch.
void interpreted_step(benchmark::State& state) {
  constexpr std::uint32_t kSteps = 128;
  Schedule schedule;
  schedule.steps_per_lane = kSteps;
  Step step;
  step.verbs = kStore;
  step.src_buffer = BufferId::kInput;
  step.dst_buffer = BufferId::kOutput;
  schedule.steps.assign(kSteps, step);
  const auto executors = make_executors(1);
  std::array<float, 2> data{1, 2};
  Launch launch;
  launch.schedule = &schedule;
  launch.input = reinterpret_cast<const std::byte*>(&data[0]);
  launch.output = reinterpret_cast<std::byte*>(&data[1]);
  launch.count = Elems{1};
  launch.tile = Elems{1};
  launch.carry(DataType::kFloat32);
  Patience patience;
  for (auto _ : state) require(executors[0]->run(launch, patience));
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * kSteps);
}
BENCHMARK(interpreted_step);

/// All-reduce of `range(0)` bytes by two threads; `range(1)` says whether by the fast path.
void one_pass(benchmark::State& state) {
  static std::vector<std::unique_ptr<Executor>> executors;
  static std::array<std::uint64_t, 2> sequences;
  const int rank = state.thread_index();
  if (rank == 0) {
    executors = make_executors(2);
    sequences = {};
  }
  const auto count = static_cast<std::size_t>(state.range(0)) / 4;
  const Schedule schedule = build_schedule(*find_algorithm(Collective::kAllReduce, "all_pairs"), Shape{2, rank, 0, 1});
  std::vector<float> in(count, 1.0f), out(count);
  Launch launch;
  launch.schedule = &schedule;
  launch.input = reinterpret_cast<const std::byte*>(in.data());
  launch.output = reinterpret_cast<std::byte*>(out.data());
  launch.count = Elems{count};
  launch.tile = Elems{count};
  launch.carry(DataType::kFloat32);
  launch.one_pass = state.range(1) != 0;
  Patience patience;
  for (auto _ : state) {
    launch.fingerprint = mix64(++sequences[static_cast<std::size_t>(rank)]);
    require(executors[static_cast<std::size_t>(rank)]->run(launch, patience));
  }
}
BENCHMARK(one_pass)
    ->ArgNames({"bytes", "fast_path"})
    ->ArgsProduct({{8, 1024, 16384}, {0, 1}})
    ->Threads(2)
    ->UseRealTime();

/// From tuttiAllReduce to its return with one rank: arguments, order, plan, board, executor, kernel.
void c_function(benchmark::State& state) {
  tuttiComm_t comm = nullptr;
  if (tuttiCommInitAll(&comm, 1, nullptr) != tuttiSuccess) return state.SkipWithError(tuttiGetLastError(nullptr));
  float in = 1, out = 0;
  for (auto _ : state) benchmark::DoNotOptimize(tuttiAllReduce(&in, &out, 1, tuttiFloat32, tuttiSum, comm, nullptr));
  tuttiCommDestroy(comm);
}
BENCHMARK(c_function);

void write_out_ring(benchmark::State& state) {
  const Algorithm& ring = *find_algorithm(Collective::kAllReduce, "ring");
  const Shape shape{static_cast<std::int32_t>(state.range(0)), 1, 0, 1};
  std::size_t steps = 0;
  for (auto _ : state) steps += build_schedule(ring, shape).steps.size();
  state.SetItemsProcessed(static_cast<std::int64_t>(steps));
}
BENCHMARK(write_out_ring)->Arg(8)->Arg(1024);

}  // namespace
}  // namespace tutti

BENCHMARK_MAIN();
