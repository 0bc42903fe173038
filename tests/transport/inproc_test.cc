// Covers transport/inproc.cc.
// The conformance suite on the reference.
#include "transport/inproc.h"

#include "transport/conformance.h"
#include "transport/conformance_sleep.h"

namespace tutti::testing_traffic {

struct InprocWorld {
  using End = InprocEndpoint;
  static constexpr std::uint64_t kSmallMessages = 50'000;
  static void run(WorldSize size, const std::function<void(End&)>& body) {
    const auto fabric = std::make_shared<InprocFabric>(size.ranks, size.lanes, size.max_message);
    run_threads(size.ranks, [&](Rank rank) {
      End endpoint(fabric, rank);
      body(endpoint);
    });
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(Inproc, Conformance, InprocWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(Inproc, BoardConformance, InprocWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(Inproc, SleepConformance, InprocWorld);

}  // namespace tutti::testing_traffic
