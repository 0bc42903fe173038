#include "schedule/link_table.h"

#include <algorithm>
#include <bit>

namespace tutti {

void LinkTable::reset(std::int32_t ranks, std::uint32_t lanes, std::uint32_t credits) {
  const auto n = static_cast<std::size_t>(ranks);
  if (n == ranks_ && lanes == lanes_) {
    for (const Queue& queue : queues_) unicast_[queue.name] = 0;
  } else {
    unicast_.assign(n * n * lanes, 0);
  }
  ranks_ = n;
  lanes_ = lanes;
  credits_ = credits;
  places_ = std::bit_ceil(credits);
  queues_.clear();
  slots_.clear();
  multicasts_.assign(n * lanes, Multicast{});
  readers_.clear();
  pending_.assign(n * lanes * places_, 0);
  multicast_slots_.assign(n * lanes * places_, Message{});
  bundles_.clear();
  free_bundles_.clear();
}

LinkTable::Queue& LinkTable::queue(const LinkName& link, std::uint32_t* slots) {
  std::uint32_t& index = unicast_[pair(link)];
  if (index == 0) {
    queues_.push_back(Queue{pair(link), 0, 0});
    slots_.resize(slots_.size() + places_);
    index = static_cast<std::uint32_t>(queues_.size());
  }
  *slots = (index - 1) * places_;
  return queues_[index - 1];
}

std::uint32_t LinkTable::bundle(std::span<const ValueId> values) {
  std::uint32_t id = static_cast<std::uint32_t>(bundles_.size());
  if (free_bundles_.empty()) {
    bundles_.emplace_back();
  } else {
    id = free_bundles_.back();
    free_bundles_.pop_back();
  }
  bundles_[id].assign(values.begin(), values.end());
  return id;
}

bool LinkTable::has_room(const LinkName& link) {
  if (link.multicast) {
    // The message that is one credit's round back; before there is one, a slot that nobody has used.
    return pending_[multicast_slot(link, multicasts_[source(link)].sent - credits_)] == 0;
  }
  std::uint32_t slots = 0;
  const Queue& q = queue(link, &slots);
  return q.sent - q.taken < credits_;
}

void LinkTable::push(const LinkName& link, Message message, std::span<const ValueId> values) {
  message.count = static_cast<std::uint32_t>(values.size());
  message.value = message.count == 1 ? values.front() : bundle(values);
  if (!link.multicast) {
    std::uint32_t slots = 0;
    Queue& q = queue(link, &slots);
    slots_[slots + (q.sent++ & (places_ - 1))] = message;
    return;
  }
  if (readers_.empty()) readers_.assign(ranks_ * ranks_ * lanes_, 0);
  const std::size_t slot = multicast_slot(link, multicasts_[source(link)].sent++);
  pending_[slot] = static_cast<std::uint32_t>(ranks_ - 1);
  multicast_slots_[slot] = message;
}

const Message* LinkTable::front(const LinkName& link) {
  if (link.multicast) {
    const std::uint32_t taken = readers_.empty() ? 0 : readers_[pair(link)];
    if (taken == multicasts_[source(link)].sent) return nullptr;
    return &multicast_slots_[multicast_slot(link, taken)];
  }
  std::uint32_t slots = 0;
  const Queue& q = queue(link, &slots);
  return q.sent == q.taken ? nullptr : &slots_[slots + (q.taken & (places_ - 1))];
}

void LinkTable::pop(const LinkName& link) {
  if (link.multicast) {
    const std::size_t slot = multicast_slot(link, readers_[pair(link)]++);
    if (--pending_[slot] == 0) values_.release(multicast_slots_[slot].value);
    return;
  }
  std::uint32_t slots = 0;
  Queue& q = queue(link, &slots);
  const Message& message = slots_[slots + (q.taken++ & (places_ - 1))];
  for (const ValueId value : values(message)) values_.release(value);
  if (message.count > 1) free_bundles_.push_back(message.value);
}

LinkName LinkTable::name_of_pair(std::size_t pair, bool multicast) const {
  return LinkName{static_cast<std::int32_t>(pair / ranks_ % ranks_), static_cast<std::int32_t>(pair % ranks_),
                  static_cast<std::uint32_t>(pair / ranks_ / ranks_), multicast};
}

bool LinkTable::find_unread(LinkName* link) {
  const auto unread = std::ranges::find_if(queues_, [](const Queue& q) { return q.sent != q.taken; });
  if (unread != queues_.end()) {
    *link = name_of_pair(unread->name, false);
    return true;
  }
  for (std::size_t pair = 0; pair < readers_.size(); ++pair) {
    const LinkName name = name_of_pair(pair, true);
    if (name.from != name.to && front(name) != nullptr) {
      *link = name;
      return true;
    }
  }
  return false;
}

}  // namespace tutti
