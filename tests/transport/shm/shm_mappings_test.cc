// Covers transport/shm/shm.cc, transport/shm/shm_ring.h.
// The conformance suite on shm with the ranks as threads, each with mappings of its own, as processes have them.
#include <fcntl.h>

#include "transport/conformance.h"
#include "transport/conformance_sleep.h"

namespace tutti::testing_traffic {

struct ShmMappingsWorld {
  using End = ShmEndpoint;
  static constexpr std::uint64_t kSmallMessages = 1'000'000;
  static Segments map_again(const Segments& originals) {
    Segments segments(originals.size());
    for (std::size_t i = 0; i < originals.size(); ++i) {
      const int copy = ::fcntl(originals[i]->descriptor(), F_DUPFD_CLOEXEC, 0);
      const Status status = Segment::adopt(copy, originals[i]->size(), &segments[i]);
      require(status.ok(), status.text());
    }
    return segments;
  }
  static void run(WorldSize size, const std::function<void(End&)>& body) {
    if (kThreadSanitized)
      GTEST_SKIP() << "ThreadSanitizer takes two mappings of one page for two memories and reports false races";
    const Segments segments = make_segments(size.geometry());
    run_threads(size.ranks, [&](Rank rank) { body(*open_endpoint(size.geometry(), rank, map_again(segments))); });
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(ShmMappings, Conformance, ShmMappingsWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(ShmMappings, BoardConformance, ShmMappingsWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(ShmMappings, SleepConformance, ShmMappingsWorld);

}  // namespace tutti::testing_traffic
