// The waits of Finalize: until every peer has finished the calls that this rank made, and until peers or the system
// have what this rank sent.
#pragma once

#include <cstdint>

#include "comm/failure/failure_handler.h"
#include "comm/failure/peers.h"
#include "comm/failure/wait_judge.h"
#include "core/status.h"
#include "core/wait_until.h"
#include "executor/rank_links.h"

namespace tutti {

/// Used by the thread that calls Finalize, while no operation runs. Its waits end as those of an operation do: by a
/// cause, a death, or the clock.
class Finalization {
 public:
  /// `last` is the number of this rank's last call. `uses_peers_memory`: kernels of other processes may use this rank's
  /// memory until those processes have come to Finalize. `ranks_per_core`: that may leave together with this one.
  Finalization(const Peers& peers, FailureHandler& failures, WaitJudge& judge, RankLinks& links, std::uint64_t last,
               bool uses_peers_memory, int ranks_per_core)
      : peers_(peers),
        failures_(failures),
        judge_(judge),
        links_(links),
        last_(last),
        uses_peers_memory_(uses_peers_memory),
        ranks_per_core_(ranks_per_core) {}

  Status run();
  /// How often a rank looks, of so many on its core.
  static WaitPace pace(int ranks_per_core);

 private:
  /// Waits until ready(&late) is true, where ready() sets `late` to the rank that it waits for. check(late) fails if
  /// that rank will never be ready.
  template <class Ready, class Check>
  Status wait_for_peers(const Ready& ready, const Check& check);
  bool is_done_with(Rank peer) const;
  bool receives_nothing(Rank peer) const;
  Status check_peer(Rank peer);

  const Peers& peers_;
  FailureHandler& failures_;
  WaitJudge& judge_;
  RankLinks& links_;
  const std::uint64_t last_;
  const bool uses_peers_memory_;
  const int ranks_per_core_;
};

}  // namespace tutti
