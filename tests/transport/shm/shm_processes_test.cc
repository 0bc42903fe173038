// Covers transport/shm/shm.cc, transport/shm/shm_ring.h.
// The conformance suite on shm with the ranks as processes that pass their segments over a unix socket.
#include "transport/conformance.h"
#include "transport/conformance_sleep.h"
#include "transport/segment_exchange.h"

namespace tutti::testing_traffic {

struct ShmProcessesWorld {
  using End = ShmEndpoint;
  static constexpr std::uint64_t kSmallMessages = 1'000'000;
  static void run(WorldSize size, const std::function<void(End&)>& body) {
    run_processes(size.ranks, [&](Rank rank, UnixSocket& exchange) {
      Segments segments = exchange_segments(size.geometry(), rank, exchange);
      body(*open_endpoint(size.geometry(), rank, std::move(segments)));
    });
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(ShmProcesses, Conformance, ShmProcessesWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(ShmProcesses, BoardConformance, ShmProcessesWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(ShmProcesses, SleepConformance, ShmProcessesWorld);

}  // namespace tutti::testing_traffic
