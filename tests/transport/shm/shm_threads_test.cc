// Covers transport/shm/shm.cc, transport/shm/shm_ring.h.
// The conformance suite on shm with the ranks as threads that share one mapping of each segment.
#include "transport/conformance.h"
#include "transport/conformance_sleep.h"

namespace tutti::testing_traffic {

struct ShmThreadsWorld {
  using End = ShmEndpoint;
  static constexpr std::uint64_t kSmallMessages = 1'000'000;
  static void run(WorldSize size, const std::function<void(End&)>& body) {
    const Segments segments = make_segments(size.geometry());
    run_threads(size.ranks, [&](Rank rank) { body(*open_endpoint(size.geometry(), rank, segments)); });
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(ShmThreads, Conformance, ShmThreadsWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(ShmThreads, BoardConformance, ShmThreadsWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(ShmThreads, SleepConformance, ShmThreadsWorld);

}  // namespace tutti::testing_traffic
