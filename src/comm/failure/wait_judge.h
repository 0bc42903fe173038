// Decides whether a wait can still end well: it looks at causes, disagreement, deaths and the clock. It does so in this
// order, so that the first cause is reported, never its consequences.
#pragma once

#include <cstdint>
#include <optional>
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

/// One per communicator. raise_alarm() is for any thread, the rest for the thread that runs the communicator's
/// operation, or waits for its end in Finalize.
class WaitJudge final : public WaitMonitor {
 public:
  /// All arguments outlive this. Links and transfers are those of all calls, whatever runs them.
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
  /// Not ok if the wait of the running operation cannot end well any more.
  Status check(Rank awaited, std::uint64_t progress) override;
  /// Not ok if the running operation has waited for longer than its timeout without progress, and a little longer while
  /// another rank may know more of the reason. Warns at half of the timeout.
  Status look_at_clock(Rank awaited, std::uint64_t progress);
  /// Asks far ranks for their boards if the wait is long: often at first, later less often, and less often where many
  /// ranks share a core. Shortly before the warning and the timeout it also asks the processes of this host, because
  /// one that is stopped does not answer. Of many far ranks it asks some, among them those at the ends of the chain of
  /// waiters that begins at `awaited`.
  void ask_peers(Rank awaited);
  /// Looks on the boards for disagreement up to the call with the number `last`. A call that moved nothing, or in which
  /// every rank only sent, met no message that could have shown a disagreement.
  Status look_for_past_disagreement(std::uint64_t last);

  /// The running operation, for texts.
  std::string what_runs() const;
  /// Returns the rank that keeps one of these ranks from finishing the call that this rank made last; kNoRank if all
  /// have finished it. Far ranks are judged by their last answer to Peers::ask_boards().
  Culprit late_in_last_call(const std::vector<int>& ranks) const;
  /// Fails the communicator by a kernel's timeout. The kernel named one rank that it waited for; the boards show which
  /// rank has not come.
  Status kernel_timed_out(const Call& call, Rank awaited);

 private:
  void note_look();
  /// Answers that were owed while this process was stopped do not count.
  PeerView view_since_awake() const;
  PeerView view() const;
  bool is_asking_about(Rank odd);
  bool waits_for_odd(Clock::time_point now) const;
  /// How many questions were due before the next verdict, whatever the pause; 0 if it is not near.
  int last_questions_due(Clock::duration waited) const;
  double grace(Rank awaited, const Culprit& culprit) const;
  double warning_time() const;
  std::vector<Rank> unfinished_peers() const;
  std::vector<Rank> next_to_ask(Rank awaited);
  bool is_cause_new(std::uint64_t progress);
  Status look_for_disagreement();
  Status look_for_transfer_faults();
  Status look_for_unequal_counts(Rank awaited, std::uint64_t progress);
  Status look_for_deaths(Rank awaited, std::uint64_t progress);
  bool has_finished(Rank peer) const {
    return !running_.is_point_to_point() && peers_.has_finished(peer, running_.call.sequence);
  }
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
  std::optional<std::uint64_t> progress_at_cause_;
  Rank suspect_ = kNoRank;
  std::uint64_t suspect_progress_ = 0;
  Clock::time_point suspect_since_{};
  Rank finished_peer_ = kNoRank;
  std::uint64_t finished_progress_ = 0;
  std::uint64_t finished_sequence_ = 0;
  Clock::time_point finished_since_{};
  Rank odd_ = kNoRank;  // whose message does not fit
  Clock::time_point odd_since_{};
  Clock::time_point asked_at_{};  // peers, for their boards
  int asked_ = 0;                 // in this wait, where not all are asked at once
  Clock::time_point looked_at_{}, awake_since_{};
};

}  // namespace tutti
