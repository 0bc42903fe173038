#include "schedule/simulator/simulated_network.h"

#include <algorithm>

namespace tutti {
namespace {

/// Speeds are whole numbers, so that they are the same on any machine.
constexpr std::int64_t kFull = 720'720;  // shared by up to 16 without a remainder
constexpr std::size_t kMostFlows = 512;
constexpr std::size_t kMostFlowsOfMany = 64;
constexpr std::int32_t kManyRanks = 1024;
constexpr Time kLongestWork = Time{1} << 60;

}  // namespace

void SimulatedNetwork::reset(const Network& network, std::int32_t hosts, std::int32_t ranks) {
  most_flows_ = ranks > kManyRanks ? kMostFlowsOfMany : kMostFlows;
  latency_ = network.costs.tcp.latency;
  wire_kib_ = network.costs.tcp.wire_kib;
  hosts_ = static_cast<std::uint32_t>(hosts);
  tree_ = network.tree;
  const auto hosts_per_leaf = static_cast<std::uint32_t>(std::max(tree_.hosts_per_leaf, 0));
  leaves_ = hosts_per_leaf == 0 ? 0 : static_cast<std::uint32_t>(div_up(hosts_, hosts_per_leaf));
  updates_ = 0;
  busiest_ = 0;
  flows_.clear();
  unused_.clear();
  changed_.clear();
  last_.clear();
  if (!has_wires()) return;
  const std::size_t wires = 2 * std::size_t{hosts_} + 2 * std::size_t{leaves_};
  if (wires_.size() < wires) wires_.resize(wires);
  const std::int64_t trunk = kFull * hosts_per_leaf * 100 / std::max<std::int64_t>(tree_.oversubscription_percent, 1);
  for (std::size_t i = 0; i < wires; ++i) {
    wires_[i].capacity = i < 2 * std::size_t{hosts_} ? kFull : trunk;
    wires_[i].work = 0;
    wires_[i].changed = false;
    wires_[i].flows.clear();
    wires_[i].waiting.clear();
    wires_[i].served = 0;
  }
  for (const SlowHost& slow : network.slow_hosts) {
    if (slow.host >= hosts) continue;
    const auto host = static_cast<std::uint32_t>(slow.host);
    const std::int64_t capacity = kFull * 100 / std::max(slow.link_percent, 1);
    wires_[host].capacity = wires_[hosts_ + host].capacity = capacity;
  }
}

void SimulatedNetwork::find_path(Flow& flow) const {
  const auto from = static_cast<std::uint32_t>(flow.transit.from_host);
  const auto to = static_cast<std::uint32_t>(flow.transit.to_host);
  flow.hops = 0;
  flow.path[static_cast<std::size_t>(flow.hops++)] = from;
  flow.path[static_cast<std::size_t>(flow.hops++)] = hosts_ + to;
  if (leaves_ == 0 || !flow.transit.crosses_leaves) return;
  const auto leaf_of = [&](std::int32_t host) { return static_cast<std::uint32_t>(tree_.leaf_of(host)); };
  flow.path[static_cast<std::size_t>(flow.hops++)] = 2 * hosts_ + leaf_of(flow.transit.from_host);
  flow.path[static_cast<std::size_t>(flow.hops++)] = 2 * hosts_ + leaves_ + leaf_of(flow.transit.to_host);
}

void SimulatedNetwork::send(const Transit& transit, EventQueue& events) {
  auto number = static_cast<std::uint32_t>(flows_.size());
  if (unused_.empty()) {
    flows_.emplace_back();
  } else {
    number = unused_.back();
    unused_.pop_back();
  }
  Flow& flow = flows_[number];
  flow = Flow{};
  flow.transit = transit;
  flow.left = time_of(transit.bytes, wire_kib_);
  find_path(flow);
  for (std::size_t i = 0; i < static_cast<std::size_t>(flow.hops); ++i) {
    Wire& wire = wires_[flow.path[i]];
    const Time work = flow.left / wire.capacity * kFull + flow.left % wire.capacity * kFull / wire.capacity;
    wire.work = std::min(wire.work + work, kLongestWork);
    busiest_ = std::max(busiest_, wire.work);
  }
  if (last_.size() <= transit.link) last_.resize(std::max<std::size_t>(transit.link + 1, 2 * last_.size()), kNobody);
  std::uint32_t& last = last_[transit.link];
  if (last != kNobody) {
    flows_[last].next = number;
  } else {
    start(number, 0, events);
  }
  last = number;
}

void SimulatedNetwork::start(std::uint32_t number, Time now, EventQueue& events) {
  Flow& flow = flows_[number];
  flow.begins = std::max(now, flow.transit.sent);
  events.push(flow.begins, Event::Kind::kWire, number);
}

bool SimulatedNetwork::happen(std::uint32_t number, Time now, EventQueue& events) {
  Flow& flow = flows_[number];
  if (!flow.flowing) {
    if (flow.begins != now) return false;  // the event is of the number's last owner
    flow.begins = INT64_MAX;               // and another such event may come now, while it waits for its turn
    begin(number, now);
    return false;
  }
  if (flow.end != now) {  // it has become faster or slower since
    if (flow.looked_at != now) return false;
    flow.looked_at = flow.end;
    events.push(flow.end, Event::Kind::kWire, number);
    return false;
  }
  leave(number, now);
  const std::uint32_t next = flow.next;
  if (next == kNobody) {
    last_[flow.transit.link] = kNobody;
  } else {
    start(next, now, events);
  }
  return true;
}

void SimulatedNetwork::begin(std::uint32_t number, Time now) {
  Flow& flow = flows_[number];
  for (std::size_t end = 0; end < 2; ++end) {
    Wire& wire = wires_[flow.path[end]];
    if (wire.flows.size() >= most_flows_) return wire.waiting.push_back(number);
  }
  flow.flowing = true;
  flow.since = now;
  for (int i = 0; i < flow.hops; ++i) {
    const auto hop = static_cast<std::size_t>(i);
    Wire& wire = wires_[flow.path[hop]];
    flow.place[hop] = static_cast<std::uint32_t>(wire.flows.size());
    wire.flows.push_back(number);
    touch(flow.path[hop]);
  }
}

void SimulatedNetwork::leave(std::uint32_t number, Time now) {
  Flow& flow = flows_[number];
  flow.flowing = false;
  for (int i = 0; i < flow.hops; ++i) {
    const auto hop = static_cast<std::size_t>(i);
    Wire& wire = wires_[flow.path[hop]];
    const std::uint32_t moved = wire.flows.back();
    wire.flows[flow.place[hop]] = moved;
    wire.flows.pop_back();
    Flow& other = flows_[moved];
    for (std::size_t k = 0; k < static_cast<std::size_t>(other.hops); ++k)
      if (other.path[k] == flow.path[hop]) other.place[k] = flow.place[hop];
    touch(flow.path[hop]);
  }
  serve(flow.path[0], now);
  serve(flow.path[1], now);
}

/// Who has waited longest for a place on the link of a host begins, or goes on to wait for the host at the other end.
void SimulatedNetwork::serve(std::uint32_t number, Time now) {
  Wire& wire = wires_[number];
  while (wire.served < wire.waiting.size() && wire.flows.size() < most_flows_) begin(wire.waiting[wire.served++], now);
  if (wire.served < wire.waiting.size()) return;
  wire.waiting.clear();
  wire.served = 0;
}

void SimulatedNetwork::touch(std::uint32_t wire) {
  if (wires_[wire].changed) return;
  wires_[wire].changed = true;
  changed_.push_back(wire);
}

std::int64_t SimulatedNetwork::speed_of(const Flow& flow) const {
  std::int64_t speed = kFull;
  for (std::size_t i = 0; i < static_cast<std::size_t>(flow.hops); ++i) {
    const Wire& wire = wires_[flow.path[i]];
    speed = std::min(speed, wire.capacity / static_cast<std::int64_t>(wire.flows.size()));
  }
  return std::max<std::int64_t>(speed, 1);
}

void SimulatedNetwork::settle(Time now, EventQueue& events) {
  for (const std::uint32_t wire : changed_) {
    wires_[wire].changed = false;
    updates_ += wires_[wire].flows.size();
    for (const std::uint32_t number : wires_[wire].flows) {
      Flow& flow = flows_[number];
      const std::int64_t speed = speed_of(flow);
      if (speed == flow.speed) continue;
      // Rounded up, so that nothing is there too early; fractions of a picosecond get lost.
      flow.left -= std::min(flow.left, (now - flow.since) * flow.speed / kFull);
      flow.since = now;
      flow.speed = speed;
      flow.end = now + (flow.left * kFull + speed - 1) / speed;
      if (flow.end >= flow.looked_at) continue;
      flow.looked_at = flow.end;
      events.push(flow.end, Event::Kind::kWire, number);
    }
  }
  changed_.clear();
}

}  // namespace tutti
