// Two ranks run collectives by a translated interpreter, which may have a fault, in cells and in slots that wrap, lent
// and not. faults_test.py says what the thread sanitizer and the results have to show of each.
#include <cstdio>

#include "collectives/choice/catalogue.h"
#include "ptx/word_interpreter.h"
#include "support/device/device_trial.h"

// DeviceTrial runs each call by this function, which other programs have in support/device/host_grid.cc.
void tutti::test::run_on_host(const DeviceCall& call, const HostRun& how) { ptx::run_words(call, how); }

int main() {
  using namespace tutti;
  DeviceGeometry geometry;
  geometry.ranks = 2;
  geometry.cell_bytes = 256;
  geometry.slot_bytes = 8192;
  int wrong_results = 0;
  for (const Collective collective : {Collective::kAllReduce, Collective::kBroadcast}) {
    for (const std::size_t tile : {std::size_t{50}, std::size_t{1600}}) {
      for (const bool lends : {false, true}) {
        test::DeviceWorld world(geometry);
        world.set_limit(60'000'000'000);
        test::DeviceCase one{find_algorithm(collective, "all_pairs"), 1, 0, 10 * tile, tile};
        one.lends = lends;
        const std::string wrong = test::DeviceTrial(&world, one).run();
        if (wrong.empty()) continue;
        std::fprintf(stderr, "%s\n", wrong.c_str());
        ++wrong_results;
      }
    }
  }
  if (wrong_results == 0) std::puts("all results are right");
  return wrong_results == 0 ? 0 : 1;
}
