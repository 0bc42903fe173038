#include "schedule/simulated_network.h"

#include <algorithm>

namespace tutti {

void SimulatedNetwork::reset(const Network& network, std::int32_t hosts) {
  latency_ = network.costs.tcp.latency;
  wire_kib_ = network.costs.tcp.wire_kib;
  hosts_per_leaf_ = network.tree.hosts_per_leaf;
  transits_.clear();
  unused_.clear();
  const auto count = static_cast<std::size_t>(hosts);
  out_.assign(count, 0);
  in_.assign(count, 0);
  if (hosts_per_leaf_ <= 0) return;
  trunk_kib_ = wire_kib_ * network.tree.oversubscription_percent / 100 / hosts_per_leaf_;
  const std::size_t leaves = div_up(count, static_cast<std::size_t>(hosts_per_leaf_));
  up_.assign(leaves, 0);
  down_.assign(leaves, 0);
}

void SimulatedNetwork::send(const Transit& transit, EventQueue& events) {
  std::uint32_t number = static_cast<std::uint32_t>(transits_.size());
  if (unused_.empty()) {
    transits_.push_back(transit);
  } else {
    number = unused_.back();
    unused_.pop_back();
    transits_[number] = transit;
  }
  transits_[number].hop = kOut;
  events.push(transit.sent, Event::Kind::kHop, number);
}

Time& SimulatedNetwork::server(const Transit& transit) {
  switch (transit.hop) {
    case kOut:
      return out_[static_cast<std::size_t>(transit.from_host)];
    case kUp:
      return up_[static_cast<std::size_t>(leaf_of(transit.from_host))];
    case kDown:
      return down_[static_cast<std::size_t>(leaf_of(transit.to_host))];
    default:
      return in_[static_cast<std::size_t>(transit.to_host)];
  }
}

bool SimulatedNetwork::hop(std::uint32_t number, Time now, EventQueue& events) {
  Transit& transit = transits_[number];
  Time& idle = server(transit);
  const Time begin = std::max(now, idle);
  const bool trunk = transit.hop == kUp || transit.hop == kDown;
  idle = begin + time_of(transit.bytes, trunk ? trunk_kib_ : wire_kib_);
  transit.tail = std::max(transit.tail, idle);
  if (transit.hop == kIn) return true;
  Time head = begin;
  if (transit.hop == kOut) {
    head += latency_;
    transit.tail += latency_;
    const bool near = hosts_per_leaf_ <= 0 || leaf_of(transit.from_host) == leaf_of(transit.to_host);
    transit.hop = near ? kIn : kUp;
  } else {
    transit.hop = transit.hop == kUp ? kDown : kIn;
  }
  events.push(head, Event::Kind::kHop, number);
  return false;
}

}  // namespace tutti
