// What a rank knows of the other ranks of its communicator: whether they live, where they stand, which of them are far.
#pragma once

#include <string>
#include <vector>

#include "comm/failure/culprit.h"
#include "comm/membership/membership.h"
#include "core/call_board.h"
#include "core/units.h"
#include "executor/rank_links.h"

namespace tutti {

/// Any thread.
class Peers {
 public:
  /// Both arguments outlive this. The links have the boards of the ranks whose memory is mapped here.
  Peers(Membership& membership, const RankLinks& links)
      : membership_(membership), links_(links), rank_(membership.rank()), ranks_(membership.ranks()) {
    for (Rank peer{0}; peer.value < ranks_; ++peer)
      if (is_far(peer)) far_.push_back(peer);
  }

  Rank rank() const { return rank_; }
  int ranks() const { return ranks_; }
  Membership& membership() const { return membership_; }
  /// A far rank's memory is not mapped here. What is known of it came in messages.
  bool is_far(Rank peer) const { return links_.board(peer) == nullptr; }
  const std::vector<Rank>& far() const { return far_; }
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
  /// Whether the rank is known to have finished the call with this number.
  bool has_finished(Rank peer, std::uint64_t sequence) const {
    if (is_far(peer) && membership_.last_sequence(peer) >= sequence) return true;
    const BoardState state = boards()(peer)->state();
    return state.sequence > sequence || (state.sequence == sequence && state.state != CallState::kRunning);
  }
  /// Asks those of these ranks that are far for their boards. Does not block; answers change what boards() reads.
  void ask_boards(const std::vector<int>& ranks) const {
    std::vector<Rank> asked;
    for (const int rank : ranks)
      if (Rank{rank} != rank_ && is_far(Rank{rank})) asked.emplace_back(rank);
    if (!asked.empty()) membership_.ask_boards(asked);
  }

 private:
  Membership& membership_;
  const RankLinks& links_;
  const Rank rank_;
  const int ranks_;
  std::vector<Rank> far_;
};

}  // namespace tutti
