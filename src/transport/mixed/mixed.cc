#include "transport/mixed/mixed.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/clock.h"

namespace tutti {

MixedEndpoint::MixedEndpoint(std::unique_ptr<ShmEndpoint> near, std::unique_ptr<TcpEndpoint> far,
                             const std::vector<Rank>& near_ranks, int ranks_per_core)
    : near_(std::move(near)),
      far_(std::move(far)),
      first_near_(near_ranks.front().value),
      longest_pause_(std::max(kLookPause, ranks_per_core * kPauseEach)) {
  places_.resize(static_cast<std::size_t>(near_ranks.back().value - first_near_) + 1, kNoRank);
  for (std::size_t i = 0; i < near_ranks.size(); ++i)
    places_[static_cast<std::size_t>(near_ranks[i].value - first_near_)] = Rank{static_cast<std::int32_t>(i)};
}

Capabilities MixedEndpoint::capabilities() const {
  const Capabilities near = near_->capabilities();
  const Capabilities far = far_->capabilities();
  return {std::min(near.max_message, far.max_message), std::min(near.credits, far.credits),
          std::min(near.piece, far.piece)};
}

std::byte* MixedEndpoint::send_claim(Route route, Bytes bytes) {
  const bool to_near = !route.multicast && !is_far(route.peer);
  // The near readers of a multicast message get a copy at the commit, so both a near and a far slot must be free.
  if (to_near || route.multicast) {
    std::byte* const slot = near_->send_claim(to_near ? near(route) : route, bytes);
    if (slot == nullptr) far_->look_around();  // as in recv_peek()
    if (to_near || slot == nullptr) return slot;
  }
  return far_->send_claim(route, bytes);
}

void MixedEndpoint::send_commit(Route route, Bytes bytes, Fingerprint fingerprint) {
  slept_ = {};
  if (!route.multicast && !is_far(route.peer)) return near_->send_commit(near(route), bytes, fingerprint);
  if (route.multicast) {
    std::byte* const slot = near_->send_claim(route, bytes);
    if (bytes.value != 0) std::memcpy(slot, far_->send_claim(route, bytes), bytes.value);
    near_->send_commit(route, bytes, fingerprint);
  }
  far_->send_commit(route, bytes, fingerprint);
}

ReferenceState MixedEndpoint::send_reference(Route route, const std::byte* data, Bytes bytes, Fingerprint fingerprint) {
  if (route.multicast) return ReferenceState::kNotOffered;
  const bool to_far = is_far(route.peer);
  const ReferenceState state = to_far ? far_->send_reference(route, data, bytes, fingerprint)
                                      : near_->send_reference(near(route), data, bytes, fingerprint);
  if (state == ReferenceState::kAgain && !to_far) far_->look_around();  // as in recv_peek()
  if (state == ReferenceState::kSent) slept_ = {};
  return state;
}

bool MixedEndpoint::references_released(Rank* late) {
  if (!far_->references_released(late)) return false;
  Rank near_late = kNoRank;
  if (near_->references_released(&near_late)) {
    slept_ = {};
    return true;
  }
  for (std::size_t i = 0; i < places_.size(); ++i)
    if (places_[i] == near_late) *late = Rank{first_near_ + static_cast<std::int32_t>(i)};
  return false;
}

void MixedEndpoint::revoke_references() {
  far_->revoke_references();
  near_->revoke_references();
}

/// One thread cannot sleep on shared memory and on connections at once: it sleeps on the former and looks at the latter
/// in between. This is the pause until the next look if far ranks may have something to send or to receive, longer the
/// longer nothing comes. By estimate a look takes 10 us of a core, so hundreds of ranks on a core that wait leave
/// nearly all of it to those that work: what a far rank sends is seen late by up to an eighth of the wait, by 1 ms at
/// most, or by 0.1 ms for each rank on the core if that is more. A near rank wakes this one. Only in the first sleep of
/// a wait this may fail (docs/design/links.md, "Sleeping"), so that is short whatever it is for.
std::chrono::nanoseconds MixedEndpoint::next_pause() const {
  const std::chrono::nanoseconds longest = std::clamp(slept_ / kShareOfWait, kLookPause, longest_pause_);
  const bool is_woken = only_near_ && far_->is_all_written() && slept_.count() > 0;
  return is_woken ? std::max(longest, kNearPause) : std::min(longest, std::max(kFirstPause, slept_));
}

void MixedEndpoint::sleep(std::chrono::nanoseconds slice) {
  far_->sleep(std::chrono::nanoseconds{0});
  if (const std::uint64_t before = std::exchange(moved_, far_->bytes_moved()); moved_ != before) {
    slept_ = {};
    near_->cancel_sleep();
    return;
  }
  if (!far_->is_unused()) slice = std::min(slice, next_pause());
  const Clock::time_point begin = Clock::now();
  near_->sleep(slice);
  slept_ += Clock::now() - begin;
}

}  // namespace tutti
