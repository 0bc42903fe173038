#include "transport/mixed/mixed.h"

#include <algorithm>
#include <cstring>

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

void MixedEndpoint::sleep(std::chrono::nanoseconds slice) {
  far_->sleep(std::chrono::nanoseconds{0});
  const std::uint64_t moved = far_->bytes_moved();
  slice_ = moved == moved_ ? std::min(2 * slice_, kLongestSlice) : kFirstSlice;
  if (moved != moved_) {
    moved_ = moved;
    near_->cancel_sleep();
    return;
  }
  near_->sleep(std::min(slice, slice_));
}

}  // namespace tutti
