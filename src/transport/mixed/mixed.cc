#include "transport/mixed/mixed.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti {

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
  if (is_far(route.peer)) return far_->send_reference(route, data, bytes, fingerprint);
  const ReferenceState state = near_->send_reference(near(route), data, bytes, fingerprint);
  if (state == ReferenceState::kAgain) far_->look_around();  // as in recv_peek()
  if (state == ReferenceState::kSent) slept_ = {};
  return state;
}

bool MixedEndpoint::references_released(Rank* late) {
  if (!far_->references_released(late)) return false;
  Rank near_late = kNoRank;
  if (near_->references_released(&near_late)) return true;
  for (std::size_t rank = 0; rank < places_.size(); ++rank)
    if (places_[rank] == near_late.value) *late = Rank{static_cast<int>(rank)};
  return false;
}

void MixedEndpoint::revoke_references() {
  far_->revoke_references();
  near_->revoke_references();
}

/// How long the next sleep may be if far ranks may have something to send or to receive. A first sleep may miss its
/// wake-up (docs/design/links.md, "Sleeping"), and is short whatever it is for.
std::chrono::nanoseconds MixedEndpoint::slice() const {
  const std::chrono::nanoseconds longest = std::clamp(slept_ / kShare, kLongestSlice, longest_slice_);
  const bool is_woken = only_near_ && far_->has_written() && slept_.count() > 0;
  return is_woken ? longest : std::min(longest, std::max(kShortestSlice, slept_));
}

void MixedEndpoint::sleep(std::chrono::nanoseconds slice) {
  far_->sleep(std::chrono::nanoseconds{0});
  if (const std::uint64_t before = std::exchange(moved_, far_->bytes_moved()); moved_ != before) {
    slept_ = {};
    near_->cancel_sleep();
    return;
  }
  if (!far_->is_unused()) slice = std::min(slice, this->slice());
  const Clock::time_point begin = Clock::now();
  near_->sleep(slice);
  slept_ += Clock::now() - begin;
}

}  // namespace tutti
