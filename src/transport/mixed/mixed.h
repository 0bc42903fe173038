// The mixed endpoint, which has shared memory to the ranks of this host and tcp to all others.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"
#include "transport/transport.h"

namespace tutti {

/// One rank's end in a communicator that spans hosts. Satisfies NetworkEndpoint. Multicast messages are written once
/// into shared memory and once to each far rank.
class MixedEndpoint {
 public:
  /// `near` has the links to the ranks of this host, `near_ranks`, ascending. `ranks_per_core`: how many ranks share a
  /// core of this host.
  MixedEndpoint(std::unique_ptr<ShmEndpoint> near, std::unique_ptr<TcpEndpoint> far,
                const std::vector<Rank>& near_ranks, int ranks_per_core = 1);

  Rank rank() const { return far_->rank(); }
  int ranks() const { return far_->ranks(); }
  Capabilities capabilities() const;

  std::byte* send_claim(Route route, Bytes bytes);
  void send_commit(Route route, Bytes bytes, Fingerprint fingerprint);
  ReferenceState send_reference(Route route, const std::byte* data, Bytes bytes, Fingerprint fingerprint);
  bool references_released(Rank* late);
  void revoke_references();
  Peek recv_peek(Route route, Bytes bytes, Fingerprint fingerprint) {
    return recv_peek(route, bytes, fingerprint, nullptr);
  }
  Peek recv_peek(Route route, Bytes bytes, Fingerprint fingerprint, std::byte* landing) {
    if (is_far(route.peer)) return far_->recv_peek(route, bytes, fingerprint, landing);
    const Peek peek = near_->recv_peek(near(route), bytes, fingerprint);
    // A far rank may wait for what a connection has not taken yet, and the near one may wait for that far rank.
    if (peek.state == PeekState::kAgain) far_->look_around();
    return peek;
  }
  void recv_release(Route route, Bytes bytes) {
    slept_ = {};
    if (is_far(route.peer)) return far_->recv_release(route, bytes);
    near_->recv_release(near(route), bytes);
  }

  bool can_send(Route route) { return route.multicast || is_far(route.peer) ? far_->can_send(route) : true; }
  bool lends(Route route, Bytes bytes) const {
    return !route.multicast && is_far(route.peer) && far_->lends(route, bytes);
  }
  std::uint64_t bytes_moved() const { return far_->bytes_moved(); }
  void make_progress() { far_->make_progress(); }
  bool delivered(Rank* late, const Receives& receives) { return far_->delivered(late, receives); }
  bool hears(Rank peer) { return far_->hears(peer); }
  std::size_t memory_bytes() const { return far_->memory_bytes(); }

  void announce_sleep(Rank only) {
    only_near_ = only != kNoRank && !is_far(only);
    near_->announce_sleep(only_near_ ? near(only) : kNoRank);
  }
  void cancel_sleep() { near_->cancel_sleep(); }
  void sleep(std::chrono::nanoseconds slice);
  void wake() {
    far_->wake();
    near_->wake();
  }

  CallBoard& board() { return near_->board(); }
  const CallBoard* board(Rank peer) const { return is_far(peer) ? nullptr : near_->board(near(peer)); }

 private:
  std::chrono::nanoseconds next_pause() const;
  /// The peer's number among the near ranks; kNoRank if it is far.
  Rank near(Rank peer) const {
    const auto place = static_cast<std::uint32_t>(peer.value - first_near_);  // large for those before the first
    return place < places_.size() ? places_[place] : kNoRank;
  }
  bool is_far(Rank peer) const { return near(peer) == kNoRank; }
  Route near(Route route) const {
    return Route{route.multicast && route.peer == kNoRank ? kNoRank : near(route.peer), route.multicast, route.lane};
  }

  std::unique_ptr<ShmEndpoint> near_;
  std::unique_ptr<TcpEndpoint> far_;
  const std::int32_t first_near_;
  std::vector<Rank> places_;  // what near() returns, for each rank from the first near one to the last
  const std::chrono::nanoseconds longest_pause_;
  std::uint64_t moved_ = 0;           // bytes_moved() at the last sleep
  std::chrono::nanoseconds slept_{};  // since a message was sent or received, or bytes moved
  bool only_near_ = false;            // the next sleep is for one near rank, which wakes this one

  // See next_pause().
  static constexpr std::chrono::nanoseconds kFirstPause = std::chrono::microseconds(200);
  static constexpr std::chrono::nanoseconds kLookPause = std::chrono::milliseconds(1);
  static constexpr std::chrono::nanoseconds kPauseEach = std::chrono::microseconds(100);  // times the ranks on a core
  static constexpr std::chrono::nanoseconds kNearPause = std::chrono::milliseconds(5);
  static constexpr int kShareOfWait = 8;
};
static_assert(NetworkEndpoint<MixedEndpoint>);

}  // namespace tutti
