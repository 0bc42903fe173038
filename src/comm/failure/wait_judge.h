// Decides when a wait is in vain: causes, disagreement, deaths, the clock. In this order, so that the first cause is
// what is reported, never its consequences.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/failure/culprit.h"
#include "comm/failure/failure_handler.h"
#include "comm/failure/peers.h"
#include "comm/failure/running_call.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/status.h"
#include "core/units.h"
#include "core/wait_monitor.h"
#include "executor/rank_links.h"
#include "executor/transfer.h"

namespace tutti {

/// One per communicator. raise_alarm() is for any thread; the rest for the one that runs the communicator's operation,
/// or waits for its end in Finalize.
class WaitJudge final : public WaitMonitor {
 public:
  /// All outlive this. Links and transfers are those of all calls, whatever runs them.
  WaitJudge(const Peers& peers, FailureHandler& failures, const RunningCall& running, RankLinks& links,
            const OpenTransfers& transfers, double reconnect_seconds, LogSource source)
      : peers_(peers),
        failures_(failures),
        running_(running),
        links_(links),
        transfers_(transfers),
        rank_(peers.rank()),
        ranks_(peers.ranks()),
        reconnect_seconds_(reconnect_seconds),
        source_(source) {}

  /// Something has changed that a wait should look at.
  void raise_alarm() { alarm_.store(1, std::memory_order_release); }
  /// The operation begins: it has not waited yet.
  void begin() { waiting_ = false; }
  /// Is the wait of the running operation still worth it?
  Status check(Rank awaited, std::uint64_t progress) override;
  /// Not ok if the running operation has waited for longer than its timeout without progress. Warns at half of that.
  Status look_at_clock(Rank awaited, std::uint64_t progress);
  /// Asks far ranks for their boards, if the wait is long, at first often, later less.
  void ask_far_ranks();
  /// Calls that moved nothing, or only sent on every rank, met no message that could have told of a disagreement: the
  /// boards do, up to the call with the number `last`.
  Status look_for_past_disagreement(std::uint64_t last);

  /// The running operation, for texts.
  std::string what_runs() const;
  /// Returns the rank that keeps one of these ranks from finishing the call that this rank made last; kNoRank if all
  /// have finished it. Far ranks are judged by their last answer to Peers::ask_boards().
  Culprit late_in_last_call(const std::vector<int>& ranks) const;
  /// The failure by a kernel's timeout, which names whom the kernel waited for: the boards tell who has not come.
  Status kernel_timed_out(const Call& call, Rank awaited);

 private:
  Status look_for_disagreement();
  Status look_for_transfer_faults();
  Status look_for_unequal_counts(Rank awaited, std::uint64_t progress);
  Status look_for_deaths(Rank awaited, std::uint64_t progress);
  bool concerns(Rank peer, Liveness liveness, Rank awaited) const;
  Status gone(Rank peer, Liveness liveness);
  Status odd_message(Rank from);
  void warn_of_wait(Rank awaited, double waited);
  Culprit culprit_of_wait(Rank awaited) const;

  const Peers& peers_;
  FailureHandler& failures_;
  const RunningCall& running_;
  RankLinks& links_;
  const OpenTransfers& transfers_;
  const Rank rank_;
  const int ranks_;
  const double reconnect_seconds_;
  const LogSource source_;

  bool waiting_ = false;
  bool warned_ = false;
  Rank waited_rank_ = kNoRank;
  std::uint64_t waited_progress_ = 0;
  Clock::time_point waiting_since_{};
  Rank suspect_ = kNoRank;
  std::uint64_t suspect_progress_ = 0;
  Clock::time_point suspect_since_{};
  Rank finished_peer_ = kNoRank;
  std::uint64_t finished_progress_ = 0;
  std::uint64_t finished_sequence_ = 0;
  Clock::time_point finished_since_{};
  Clock::time_point asked_at_{};  // the far ranks, for their boards
};

}  // namespace tutti
