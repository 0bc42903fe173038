// What a rank knows of the other ranks of its communicator: whether they live, where they stand, which of them are far.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "comm/failure/culprit.h"
#include "comm/membership/membership.h"
#include "core/call_board.h"
#include "core/clock.h"
#include "core/units.h"
#include "executor/rank_links.h"

namespace tutti {

/// Any thread.
class Peers {
 public:
  /// The first two outlive this. The links have the boards of the ranks whose memory is mapped here. `ranks_per_core`:
  /// how many ranks share a core of this host, those of the process's other communicators included.
  Peers(Membership& membership, const RankLinks& links, int ranks_per_core)
      : membership_(membership),
        links_(links),
        rank_(membership.rank()),
        ranks_(membership.ranks()),
        ranks_per_core_(ranks_per_core),
        far_count_(static_cast<int>(far().size())) {}

  Rank rank() const { return rank_; }
  int ranks() const { return ranks_; }
  Membership& membership() const { return membership_; }
  /// A far rank's memory is not mapped here. What is known of it came in messages.
  bool is_far(Rank peer) const { return links_.board(peer) == nullptr; }
  int far_count() const { return far_count_; }
  /// Looks at all ranks: for those who have waited for long.
  std::vector<Rank> far() const {
    std::vector<Rank> found;
    for (Rank peer{0}; peer.value < ranks_; ++peer)
      if (is_far(peer)) found.push_back(peer);
    return found;
  }
  Liveness liveness(Rank peer) const { return membership_.liveness(peer); }
  std::string describe(Rank peer) const { return membership_.describe(peer); }
  std::string describe_end(Rank peer) const { return membership_.describe_end(peer); }

  /// Reads this rank's board and those of all others. For a far rank it reads the last copy.
  BoardReader boards() const {
    return [this](Rank peer) {
      const CallBoard* const mapped = links_.board(peer);
      return mapped != nullptr || peer == rank_ ? mapped : membership_.board(peer);
    };
  }
  /// What the functions of culprit.h look at.
  PeerView view() const {
    return PeerView{rank_, ranks_, boards(), [this](Rank peer) { return membership_.unanswered(peer); }};
  }
  /// Whether the rank is known to have finished the call with this number.
  bool has_finished(Rank peer, std::uint64_t sequence) const {
    if (is_far(peer) && std::max(membership_.last_sequence(peer), membership_.finished_by_all()) >= sequence)
      return true;
    return boards()(peer)->state().has_finished(sequence);
  }
  /// Between two questions of this rank to all that its process is connected to, and between two that make connections.
  /// A process of many is connected to twenty others or so. By estimate it takes a millisecond of a core to ask them,
  /// and three with new connections, so ranks that share a core take an eighth of it, and do not keep each other from
  /// what they wait for.
  Clock::duration question_pause() const { return ranks_per_core_ * std::chrono::milliseconds(8); }
  Clock::duration search_pause() const { return ranks_per_core_ * std::chrono::milliseconds(24); }
  /// How many connections one question may make.
  int most_dials() const { return std::clamp(128 / ranks_per_core_, 1, 8); }
  /// Asks far ranks whose processes are connected to this one for their boards, four times a second at most. Any
  /// thread.
  void ask_now_and_then() const {
    const Clock::duration pause = std::max<Clock::duration>(std::chrono::milliseconds(250), question_pause());
    const Clock::duration now = Clock::now().time_since_epoch();
    Clock::rep last = asked_at_.load(std::memory_order_relaxed);
    if (far_count_ == 0 || now - Clock::duration(last) < pause) return;
    if (asked_at_.compare_exchange_strong(last, now.count(), std::memory_order_relaxed))
      membership_.ask_boards(far(), 0);
  }
  /// Asks those of these ranks that are far for their boards. Does not block; answers change what boards() reads.
  void ask_boards(const std::vector<int>& ranks) const {
    std::vector<Rank> asked;
    for (const int rank : ranks)
      if (Rank{rank} != rank_ && is_far(Rank{rank})) asked.emplace_back(rank);
    if (!asked.empty()) membership_.ask_boards(asked, most_dials());
  }

 private:
  Membership& membership_;
  const RankLinks& links_;
  const Rank rank_;
  const int ranks_;
  const int ranks_per_core_;
  const int far_count_;
  mutable std::atomic<Clock::rep> asked_at_{0};  // relaxed: it stands alone
};

}  // namespace tutti
