// What a waiting executor asks the communicator: is it still worth waiting, and for whom is it?
#pragma once

#include <atomic>
#include <cstdint>

#include "core/status.h"
#include "core/units.h"

namespace tutti {

/// Implemented by WaitJudge (operations) and HostExchange (the devices' set-up in the join). The flag is for spins (one
/// load); the function is for the slow rungs.
class WaitMonitor {
 public:
  virtual ~WaitMonitor() = default;

  /// True once the communicator failed, was aborted, or a peer's death or goodbye became known: call `check` now.
  bool alarmed() const { return alarm_.load(std::memory_order_acquire) != 0; }

  /// Called by the waiting thread when it has waited a while (1 ms for each rank on its core, at most 0.1 s, and then
  /// again after as long) and whenever alarmed, each time after a look at its links found nothing. `awaited` is the
  /// lowest rank that the executor waits for, `progress` a number that grows with every message moved. Not ok: the
  /// operation ends with this status.
  virtual Status check(Rank awaited, std::uint64_t progress) = 0;

 protected:
  std::atomic<std::uint32_t> alarm_{0};  // release by whoever raises it, pairs with the acquire in alarmed()
};

}  // namespace tutti
