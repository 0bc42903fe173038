// Ranks run collectives by a translated interpreter, which may have a fault, in cells and in slots that wrap, lent
// and not. faults_test.py says what the thread sanitizer and the results have to show of each.
#include <cstdio>

#include "collectives/choice/catalogue.h"
#include "executor/device/block_memory.h"
#include "ptx/word_interpreter.h"
#include "support/device/device_trial.h"

// DeviceTrial runs each call by this function, which other programs have in support/device/host_grid.cc.
void tutti::test::run_on_host(const DeviceCall& call, const HostRun& how) { ptx::run_words(call, how); }

namespace tutti {
namespace {

int wrong_results = 0;

void run(int ranks, Collective collective, const char* algorithm, std::size_t tile, bool lends, int times = 1) {
  DeviceGeometry geometry;
  geometry.ranks = ranks;
  geometry.cell_bytes = 256;
  geometry.slot_bytes = 8192;
  test::DeviceWorld world(geometry);
  world.set_limit(60'000'000'000);
  test::DeviceCase one{find_algorithm(collective, algorithm), 1, 0, (times == 1 ? 10 : 1) * tile, tile};
  one.lends = lends;
  one.times = times;
  const std::string wrong = test::DeviceTrial(&world, one).run();
  if (wrong.empty()) return;
  std::fprintf(stderr, "%s\n", wrong.c_str());
  ++wrong_results;
}

}  // namespace
}  // namespace tutti

int main() {
  using namespace tutti;
  for (const std::size_t tile : {std::size_t{50}, std::size_t{1600}}) {
    for (const bool lends : {false, true}) {
      for (const Collective collective : {Collective::kAllReduce, Collective::kBroadcast})
        run(2, collective, "all_pairs", tile, lends);
      run(3, Collective::kAllReduce, "all_pairs_two_shot", tile, lends);  // has steps that run together
    }
    run(2, Collective::kAllReduce, "all_pairs", tile, false, kShapes);  // has more steps than shared memory has shapes
  }
  if (wrong_results == 0) std::puts("all results are right");
  return wrong_results == 0 ? 0 : 1;
}
