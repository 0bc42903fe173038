// How much longer the first call of a group of sizes takes, since it simulates the algorithms: on one host with two
// cores, over shared memory and over tcp, and between hosts with cores enough and links of 100 Gbit/s.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/choice/automatic_choice.h"

namespace tutti {
namespace {

struct Layout {
  const char* name;
  std::vector<int> hosts;  ///< by rank
  bool one_host;           ///< all ranks run on one host, even if tcp connects them
};

const Layout kLayouts[] = {
    {"shm_2", {0, 0}, true},
    {"shm_8", {0, 0, 0, 0, 0, 0, 0, 0}, true},
    {"tcp_8", {0, 1, 2, 3, 4, 5, 6, 7}, true},
    {"hosts_2x2", {0, 0, 1, 1}, false},
    {"hosts_4x2", {0, 0, 1, 1, 2, 2, 3, 3}, false},
    {"hosts_8x1", {0, 1, 2, 3, 4, 5, 6, 7}, false},
};

Machine machine_of(const Layout& layout) {
  constexpr Time kWireKib = 80'000;  // picoseconds a KiB: 100 Gbit/s
  Machine machine;
  machine.ranks = static_cast<int>(layout.hosts.size());
  machine.hosts = layout.hosts;
  machine.lanes = 2;
  machine.max_message = largest_message(machine.max_message, have_a_host_each(layout.hosts));
  machine.credits = 4;
  machine.network = layout.hosts.back() != 0;
  machine.same_host_id = machine.same_boot_id = layout.one_host;
  machine.costs.cores = layout.one_host ? 2 : 8;
  if (layout.one_host) machine.ranks_per_core = (machine.ranks + machine.costs.cores - 1) / machine.costs.cores;
  if (!layout.one_host) machine.costs.tcp.wire_kib = kWireKib;
  return machine;
}

void first_question(benchmark::State& state, const Layout& layout, Collective collective, std::size_t bytes) {
  const Machine machine = machine_of(layout);
  for ([[maybe_unused]] auto round : state) {
    const AutomaticChoice choice(machine);
    benchmark::DoNotOptimize(choice.find(collective, Bytes{bytes}));
  }
}

void register_all() {
  for (const Layout& layout : kLayouts)
    for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather, Collective::kBroadcast})
      for (const std::size_t bytes : {std::size_t{8}, std::size_t{64} << 10, std::size_t{1} << 20})
        benchmark::RegisterBenchmark(
            (std::string(name_of(collective)) + "/" + layout.name + "/" + std::to_string(bytes)).c_str(),
            [=, &layout](benchmark::State& state) { first_question(state, layout, collective, bytes); })
            ->Unit(benchmark::kMicrosecond);
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  tutti::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
