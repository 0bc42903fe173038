// The waits of Finalize: until every peer has finished what this rank took part in, and until what this rank sent is in
// other hands.
#pragma once

#include <cstdint>

#include "comm/failure/failure_handler.h"
#include "comm/failure/peers.h"
#include "comm/failure/wait_judge.h"
#include "core/status.h"
#include "executor/rank_links.h"

namespace tutti {

/// By the thread that calls Finalize, when no operation runs. Its waits end as those of an operation: by a cause, a
/// death, or the clock.
class Finalization {
 public:
  /// `last` is the number of this rank's last call. `uses_peers_memory`: kernels of other processes may use this rank's
  /// memory until these have come to Finalize.
  Finalization(const Peers& peers, FailureHandler& failures, WaitJudge& judge, RankLinks& links, std::uint64_t last,
               bool uses_peers_memory)
      : peers_(peers),
        failures_(failures),
        judge_(judge),
        links_(links),
        last_(last),
        uses_peers_memory_(uses_peers_memory) {}

  Status run();

 private:
  /// Waits until ready(&late) is true. It names the rank that it waits for; check(late) fails if that wait is in vain.
  template <class Ready, class Check>
  Status wait_for_peers(const Ready& ready, const Check& check);
  bool is_done_with(Rank peer) const;
  Status check_peer(Rank peer);

  const Peers& peers_;
  FailureHandler& failures_;
  WaitJudge& judge_;
  RankLinks& links_;
  const std::uint64_t last_;
  const bool uses_peers_memory_;
};

}  // namespace tutti
