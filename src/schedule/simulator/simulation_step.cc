// What a step costs, and what its end does to others.
#include <algorithm>

#include "schedule/simulator/simulation.h"

namespace tutti {

/// Whether the rank may run now; else it stands in its core's queue.
bool Simulation::take_core(std::int32_t rank, Time* begin) {
  const std::int32_t number = core_of_[static_cast<std::size_t>(rank)];
  if (number < 0) return true;
  Core& core = cores_[static_cast<std::size_t>(number)];
  if (core.busy) {
    core.queue.push_back(rank);
    return false;
  }
  if (core.rank >= 0 && core.rank != rank) *begin += plan_.network.costs.handover;
  core.busy = true;
  core.rank = rank;
  return true;
}

/// The rank waits for something: the next one that could go on has the core.
void Simulation::leave_core(std::int32_t rank, Time now) {
  const std::int32_t number = core_of_[static_cast<std::size_t>(rank)];
  if (number < 0) return;
  Core& core = cores_[static_cast<std::size_t>(number)];
  if (core.head == core.queue.size()) return;
  const std::int32_t next = core.queue[core.head++];
  if (core.head == core.queue.size()) {
    core.queue.clear();
    core.head = 0;
  }
  workers_[static_cast<std::size_t>(next)].queued = false;
  look(next, now);
}

void Simulation::begin(std::int32_t rank, std::uint32_t lane, Time now) {
  Worker& worker = workers_[static_cast<std::size_t>(rank)];
  Time begin = now;
  if (!take_core(rank, &begin)) {
    worker.queued = true;
    return;
  }
  Strand& s = strand(rank, lane);
  worker.busy = true;
  s.begin = begin;
  Time end = begin + duration(rank, s);
  if (crosses_memory_) end = std::max(end, memory_busy(rank, s, begin));
  // What it sends leaves at its end. That is known now, so the writes of a step to many can be timed back from it.
  if (s.step.has(kSend)) commit(rank, s, end);
  events_.push(end, Event::Kind::kDone, static_cast<std::uint32_t>(rank));
  ++steps_;
  work_ += 1 + static_cast<std::uint64_t>(s.peers.count);
}

Time Simulation::duration(std::int32_t rank, const Strand& s) const {
  const Costs& costs = plan_.network.costs;
  const Step& step = s.step;
  Time time = costs.step;
  const bool first =
      s.number == 0 && s.pass % plan_.tiles == 0 && &s == &strands_[static_cast<std::size_t>(rank) * lanes_];
  if (first) time += costs.call;
  if (step.has(kRecv)) time += receiving(rank, s);
  if (step.has(kReduce)) {
    const std::int32_t operands = step.recv_from == PeerSet::kOne ? 2 : std::max(s.peers.count, 1);
    time += operands * time_of(s.bytes, costs.reduce_kib);
  } else if (step.has(kStore)) {
    // What comes from a socket is read to where it is stored.
    const bool lands = step.has(kRecv) && &costs_between(rank, step.recv_peer) == &costs.tcp;
    if (!lands) time += time_of(s.bytes, costs.copy_kib);
  }
  if (step.has(kSend)) time += sending(rank, s);
  return on_host(rank, time);
}

/// A slow host takes longer for the same work.
Time Simulation::on_host(std::int32_t rank, Time work) const {
  if (work_percent_.empty()) return work;
  return work * work_percent_[static_cast<std::size_t>(host_of(rank))] / kPercent;
}

Time Simulation::receiving(std::int32_t rank, const Strand& s) const {
  const auto from = [&](std::int32_t peer) {
    const LinkCosts& costs = costs_between(rank, peer);
    const Time fetching = s.bytes > kShortMessage ? costs.long_overhead : 0;
    return costs.recv_overhead + fetching + time_of(s.bytes, costs.recv_kib);
  };
  if (s.step.recv_from == PeerSet::kOne) return from(s.step.recv_peer);
  Time time = 0;
  for (std::int32_t i = 0; i < s.peers.count; ++i) time += s.peers[i] == rank ? 0 : from(s.peers[i]);
  return time;
}

/// A multicast is written once for all readers of the host, and once to each far one.
Time Simulation::sending(std::int32_t rank, const Strand& s) const {
  const auto message = [&](const LinkCosts& costs) { return costs.send_overhead + time_of(s.bytes, costs.send_kib); };
  if (s.step.send_to != PeerSet::kAll) return message(costs_between(rank, s.step.send_peer));
  const std::int32_t ranks = plan_.call.shape.ranks;
  if (ranks == 1) return 0;
  std::int32_t near = ranks;
  if (!flat_network_) {
    near = plan_.call.shape.hosts->size_of(host_of(rank));
  } else if (plan_.network.tcp) {
    near = 1;
  }
  const Costs& costs = plan_.network.costs;
  return (near > 1 ? message(costs.shm) : 0) + (ranks - near) * message(costs.tcp);
}

/// The memory of a host serves its ranks one after the other: when it has done so for this step.
Time Simulation::memory_busy(std::int32_t rank, const Strand& s, Time begin) {
  const auto is_users = [](BufferId buffer) { return buffer == BufferId::kInput || buffer == BufferId::kOutput; };
  const std::size_t touched = (is_users(s.step.src_buffer) ? s.bytes : 0) + (is_users(s.step.dst_buffer) ? s.bytes : 0);
  Time& idle = memory_idle_[plan_.network.same_boot_id ? 0 : static_cast<std::size_t>(host_of(rank))];
  if (touched == 0) return begin;
  const Time all = on_host(rank, time_of(touched, plan_.network.costs.memory_kib));
  const Time first = first_touches_[static_cast<std::size_t>(rank)];  // in two parts: the product may be no Time
  idle = std::max(idle, begin) + all / kWhole * first + all % kWhole * first / kWhole;
  return idle;
}

void Simulation::end(std::int32_t rank, Time now) {
  Worker& worker = workers_[static_cast<std::size_t>(rank)];
  Strand& s = strand(rank, worker.lane);
  worker.busy = false;
  if (trace_ != nullptr)
    trace_->steps.push_back(SimulatedStep{rank, worker.lane, s.pass, s.number, s.begin, now, s.step});
  if (s.step.has(kRecv)) release(rank, s, now);
  advance(rank, s, now);
  const std::int32_t core = core_of_[static_cast<std::size_t>(rank)];
  if (core >= 0) cores_[static_cast<std::size_t>(core)].busy = false;
  if (!look(rank, now)) leave_core(rank, now);
}

void Simulation::release(std::int32_t rank, const Strand& s, Time now) {
  if (s.step.recv_from == PeerSet::kOne) return release_one(rank, s.step.recv_peer, s, now);
  for (std::int32_t i = 0; i < s.peers.count; ++i)
    if (s.peers[i] != rank) release_one(rank, s.peers[i], s, now);
}

void Simulation::release_one(std::int32_t rank, std::int32_t peer, const Strand& s, Time now) {
  const auto lane = static_cast<std::uint32_t>(&s - &strand(rank, 0));
  const bool multicast = s.step.is(kMulticastRecv);
  const std::uint32_t link = s.in != kNoLink ? s.in : link_between(peer, rank, lane, multicast);
  const Time free = now + costs_between(rank, peer).latency;
  const std::int32_t sender = peer % plan_.period;
  if (!multicast) {
    links_.take(link, free);
    return wake_sender(sender, lane, link, free);
  }
  const std::uint32_t message = links_.taken(link);
  links_.take(link, free);
  const auto index = static_cast<std::uint32_t>(&strand(sender, lane) - strands_.data());
  MulticastSlots::Slot& slot = multicast_slots_[index].slot_of(message);
  slot.free = std::max(slot.free, free);
  if (--slot.pending == 0) wake_sender(sender, lane, index, slot.free);
}

void Simulation::wake_sender(std::int32_t sender, std::uint32_t lane, std::uint32_t link, Time when) {
  Strand& s = strand(sender, lane);
  if (s.awaited != link || !s.wants_slot) return;
  s.awaited = kNoLink;
  events_.push(when, Event::Kind::kLook, static_cast<std::uint32_t>(sender));
}

void Simulation::commit(std::int32_t rank, const Strand& s, Time end) {
  const std::int32_t ranks = plan_.call.shape.ranks;
  if (ranks == 1) return;
  if (s.step.send_to != PeerSet::kAll) {
    links_.claim(s.out);
    return commit_to(rank, s.step.send_peer, s.out, s, end);
  }
  const auto lane = static_cast<std::uint32_t>(&s - &strand(rank, 0));
  MulticastSlots& slots = multicast_slots_[static_cast<std::size_t>(&s - strands_.data())];
  MulticastSlots::Slot& slot = slots.slot_of(slots.sent++);
  slot.pending = static_cast<std::uint32_t>(ranks - 1);
  slot.free = 0;
  work_ += static_cast<std::uint64_t>(ranks);
  // From the right neighbour on. Who is written to last sees the message at the end of the step.
  const LinkCosts& tcp = plan_.network.costs.tcp;
  const Time one = on_host(rank, tcp.send_overhead + time_of(s.bytes, tcp.send_kib));
  std::int32_t far = 0;
  for (std::int32_t i = ranks - 1; i > 0; --i) {
    const std::int32_t peer = (rank + i) % ranks;
    const bool near = host_of(rank) == host_of(peer);
    const std::uint32_t link = link_between(rank, peer, lane, true);
    links_.claim(link);
    commit_to(rank, peer, link, s, near ? end : end - one * far++);
  }
}

void Simulation::commit_to(std::int32_t rank, std::int32_t peer, std::uint32_t link, const Strand& s, Time sent) {
  const std::int32_t reader = peer % plan_.period;
  const bool near = host_of(rank) == host_of(peer);
  const Time seen = sent + costs_between(rank, peer).latency;
  if (trace_ != nullptr) {
    const auto lane = static_cast<std::uint32_t>(&s - &strand(rank, 0));
    const bool multicast = s.step.send_to == PeerSet::kAll;
    trace_->messages.push_back(
        SimulatedMessage{rank, peer, lane, multicast, s.pass, s.step.chunk, s.bytes, sent, seen});
  }
  if (near || !network_.has_wires()) return arrive(link, reader, seen);
  Transit transit;
  transit.link = link;
  transit.trace = trace_ == nullptr ? 0 : trace_->messages.size() - 1;
  transit.reader = reader;
  transit.from_host = host_of(rank);
  transit.to_host = host_of(reader);
  const FatTree& tree = plan_.network.tree;
  transit.crosses_leaves = tree.leaf_of(transit.from_host) != tree.leaf_of(host_of(peer));
  transit.bytes = s.bytes;
  transit.sent = sent;
  network_.send(transit, events_);
}

void Simulation::arrive(std::uint32_t link, std::int32_t reader, Time seen) {
  links_.arrive(link, seen);
  for (std::uint32_t lane = 0; lane < lanes_; ++lane) {
    Strand& s = strand(reader, lane);
    if (s.awaited != link || s.wants_slot) continue;
    s.awaited = kNoLink;
    events_.push(seen, Event::Kind::kLook, static_cast<std::uint32_t>(reader));
  }
}

}  // namespace tutti
