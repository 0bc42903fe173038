#include "comm/failure/finalization.h"

#include <algorithm>
#include <chrono>

namespace tutti {

// Peers' boards show how far they are. A rank that has left has finished all calls, or is reported.
Status Finalization::run() {
  if (last_ == 0) {
    TUTTI_TRY(failures_.adopt_cause());
  } else {
    Rank peer{0};
    const auto all_are_done = [&](Rank* late) {
      while (peer.value < peers_.ranks() && is_done_with(peer)) ++peer;
      *late = peer;
      return peer.value == peers_.ranks();
    };
    TUTTI_TRY(wait_for_peers(all_are_done, [this](Rank late) { return check_peer(late); }));
    TUTTI_TRY(failures_.adopt_cause());
    TUTTI_TRY(judge_.look_for_past_disagreement(last_));
  }
  // Messages of sends may still be in this host's memory. They are lost if this rank leaves before the peer receives
  // them. A peer that has come to Finalize receives nothing more.
  const auto all_is_received = [this](Rank* late) {
    return links_.transfers_delivered(late, [this](Rank reader) { return !receives_nothing(reader); });
  };
  return wait_for_peers(all_is_received, [](Rank) { return Status(); });
}

// A look costs tens of microseconds, because it asks the system for what each connection has. Ranks that share a core
// and looked every millisecond would keep each other from it for longer than all their goodbyes take.
WaitPace Finalization::pace(int ranks_per_core) {
  constexpr std::chrono::nanoseconds kNap{1'000'000};
  constexpr std::chrono::nanoseconds kLongestNap{100'000'000};
  constexpr std::chrono::nanoseconds kTurn{200'000};
  constexpr int kCrowd = 4;
  const std::chrono::nanoseconds turns = std::min(ranks_per_core * kTurn, kLongestNap);
  return ranks_per_core >= kCrowd ? WaitPace::naps(std::max(turns, kNap)) : WaitPace{kNap};
}

template <class Ready, class Check>
Status Finalization::wait_for_peers(const Ready& ready, const Check& check) {
  judge_.begin();
  Rank late = kNoRank;
  const auto is_worth_it = [&](bool sleeps) -> Status {
    if (sleeps || judge_.alarmed()) TUTTI_TRY(failures_.adopt_cause());
    TUTTI_TRY(check(late));
    if (!sleeps) return {};
    TUTTI_TRY(judge_.look_at_clock(late, links_.bytes_moved()));
    judge_.ask_peers(late);
    links_.make_progress();  // a peer may have lost a connection, and need again what it carried
    return {};
  };
  return wait_until([&] { return ready(&late); }, is_worth_it, pace(ranks_per_core_));
}

// On the boards, a call on a CUDA stream has finished as soon as it is enqueued. A peer's next call, Finalize, shows
// that it has really ended.
bool Finalization::is_done_with(Rank peer) const {
  if (peer == peers_.rank()) return true;
  const bool through = uses_peers_memory_ && peers_.liveness(peer) == Liveness::kAlive;
  return through ? peers_.boards()(peer)->state().sequence > last_ : peers_.has_finished(peer, last_);
}

bool Finalization::receives_nothing(Rank peer) const {
  if (peer == peers_.rank() || peers_.liveness(peer) != Liveness::kAlive) return true;
  const CallBoard* const theirs = peers_.boards()(peer);
  if (theirs->state().sequence <= last_) return false;
  const PostedCall next = theirs->find(last_ + 1);  // a far rank's may not be known, only that it finishes
  return !next.known || next.call.collective == Collective::kFinalize;
}

Status Finalization::check_peer(Rank peer) {
  if (peers_.liveness(peer) == Liveness::kAlive || peers_.has_finished(peer, last_)) return {};
  TUTTI_TRY(failures_.adopt_cause());  // a rank that posts a cause does so before it leaves
  const std::string end = peers_.describe_end(peer);
  return failures_.fail_for_good(
      fail(Code::kRemoteError, "{}, and is not known to have finished operation {}", end, last_), peer);
}

}  // namespace tutti
