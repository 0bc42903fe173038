// Hierarchical all-reduce for small sizes, and hierarchical barrier: each host's first rank, its leader, hears from all
// ranks of its host, exchanges with the other leaders, and tells its host. Few hosts exchange directly: one hop across
// the network, H-1 messages a leader. More hosts take ceil(log2 H) hops or so: recursive doubling for the all-reduce
// (recursive_doubling.h), dissemination for the barrier (dissemination.h), with hosts in the place of ranks.
//
// What leaders exchange lies in scratch and not in the output, so that a result never overwrites what a peer may still
// be reading.
//
// `tutti-plan all_reduce --ranks 4 --hosts 2 --algo hierarchical_leaders --grid` (drawing.h says how to read it):
//
//   rank 0   <h +0= >2   <a +0=   0 >1
//   rank 1   0 >0        <0 0=
//   rank 2   <h +0= >0   <a +0=   0 >3
//   rank 3   0 >2        <2 0=
#pragma once

#include "collectives/dissemination.h"
#include "collectives/hierarchical/host_layout.h"
#include "collectives/recursive_doubling.h"
#include "schedule/step_builder.h"

namespace tutti::hierarchical_leaders {

using hosts::Place;

/// Up to so many hosts exchange directly. A message costs a leader 2 to 3 us of system call, a hop 10 us and more.
inline constexpr std::int32_t kOneHopHosts = 8;

TUTTI_HD constexpr bool takes_one_hop(const Place& p) { return p.hosts <= kOneHopHosts; }

/// Steps by which the leader of a host takes part in the exchange, without what goes before and after.
TUTTI_HD constexpr std::int32_t exchange_steps(const Shape& s, const Place& p, bool barrier) {
  if (takes_one_hop(p)) return p.hosts;
  const Shape circle = hosts::circle(s);
  return static_cast<std::int32_t>(barrier ? dissemination::barrier_steps(circle)
                                           : recursive_doubling::all_reduce_steps(circle));
}

/// A leader first collects, in a step of its own unless that step can send too: a leader alone on its host has nothing
/// to collect for a barrier, and for an all-reduce copies its input apart, because what is sent may be read where it
/// was taken from. Then it exchanges, then it tells its host. The others have two steps.
TUTTI_HD constexpr std::int32_t collect_steps(const Place& p, bool barrier) {
  if (p.size == 1) return barrier ? 0 : 1;
  return takes_one_hop(p) ? 0 : 1;
}
TUTTI_HD constexpr std::uint32_t steps(const Shape& s, bool barrier) {
  if (s.ranks == 1) return barrier ? 0 : 1;
  const Place p = hosts::place_of(s);
  if (p.index != 0) return 2;
  return static_cast<std::uint32_t>(collect_steps(p, barrier) + exchange_steps(s, p, barrier) + p.others());
}

TUTTI_HD constexpr std::int32_t leader_of(const Shape& s, std::int32_t host) { return hosts::rank_at(s, host, 0); }

/// ---- all-reduce ----

TUTTI_HD constexpr Extent all_reduce_extent(const Shape& s) {
  const auto lanes = static_cast<std::uint32_t>(s.lanes);
  return Extent{lanes, 1, 1, lanes};
}

TUTTI_HD constexpr StepBuilder collect(const Place& p, std::uint32_t lane) {
  StepBuilder step(lane, lane);
  p.size > 1 ? step.recv_each(PeerSet::kHost).reduce(BufferId::kInput, lane) : step.take(BufferId::kInput, lane);
  return step.store(BufferId::kScratch, lane);
}

/// The own part to each other leader; then all of theirs at once, in host order.
TUTTI_HD constexpr Step exchange_in_one_hop(const Shape& s, const Place& p, std::uint32_t lane, std::int32_t i) {
  const bool collects = i == 0 && p.size > 1;
  StepBuilder step = collects ? collect(p, lane) : StepBuilder(lane, lane);
  if (i < p.hosts - 1) {
    if (!collects) step.take(BufferId::kScratch, lane);
    return step.send(leader_of(s, wrap(p.host + 1 + i, p.hosts))).step();
  }
  step.recv_each(PeerSet::kAcross).reduce(BufferId::kScratch, lane).complete();
  return step.store(BufferId::kOutput, lane).step();
}

/// Recursive doubling among leaders: its input and what it keeps between rounds is the scratch.
TUTTI_HD constexpr Step exchange_by_doubling(const Shape& s, std::uint32_t lane, std::int32_t i) {
  const Shape circle = hosts::circle(s);
  Step step = recursive_doubling::all_reduce_step(circle, lane, static_cast<std::uint32_t>(i));
  const bool guest_ends = recursive_doubling::is_guest(circle) && i == 1;
  if (step.has(kRecv)) step.recv_peer = leader_of(s, step.recv_peer);
  if (step.has(kSend)) step.send_peer = leader_of(s, step.send_peer);
  if (step.src_buffer != BufferId::kNone) step.src_buffer = BufferId::kScratch;
  if (step.has(kStore) && !step.is(kComplete) && !guest_ends) step.dst_buffer = BufferId::kScratch;
  return step;
}

TUTTI_HD constexpr Step all_reduce_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const Place p = hosts::place_of(s);
  StepBuilder step(lane, lane);
  if (p.index != 0 && i == 0) return step.take(BufferId::kInput, lane).send(leader_of(s, p.host)).step();
  if (p.index != 0) return step.recv(leader_of(s, p.host)).store(BufferId::kOutput, lane).step();
  auto at = static_cast<std::int32_t>(i);
  if (at < collect_steps(p, false)) return collect(p, lane).step();
  at -= collect_steps(p, false);
  const std::int32_t exchange = exchange_steps(s, p, false);
  if (at < exchange) return takes_one_hop(p) ? exchange_in_one_hop(s, p, lane, at) : exchange_by_doubling(s, lane, at);
  return step.take(BufferId::kOutput, lane).send(hosts::other(s, p, at - exchange)).step();
}

TUTTI_HD constexpr std::uint32_t all_reduce_steps(const Shape& s) { return steps(s, false); }

/// ---- barrier ----

TUTTI_HD constexpr Extent barrier_extent(const Shape&) { return Extent{1, 0, 0, 0}; }

TUTTI_HD constexpr Step meet_leaders(const Shape& s, const Place& p, std::int32_t i) {
  StepBuilder step(0, 0);
  if (!takes_one_hop(p)) {
    Step round = dissemination::barrier_step(hosts::circle(s), 0, static_cast<std::uint32_t>(i));
    if (round.has(kRecv)) round.recv_peer = leader_of(s, round.recv_peer);
    if (round.has(kSend)) round.send_peer = leader_of(s, round.send_peer);
    return round;
  }
  if (i == p.hosts - 1) return step.recv_each(PeerSet::kAcross).step();
  if (i == 0 && p.size > 1) step.recv_each(PeerSet::kHost);
  return step.send(leader_of(s, wrap(p.host + 1 + i, p.hosts))).step();
}

TUTTI_HD constexpr Step barrier_step(const Shape& s, std::uint32_t, std::uint32_t i) {
  const Place p = hosts::place_of(s);
  StepBuilder step(0, 0);
  if (p.index != 0) return i == 0 ? step.send(leader_of(s, p.host)).step() : step.recv(leader_of(s, p.host)).step();
  auto at = static_cast<std::int32_t>(i);
  if (at < collect_steps(p, true)) return step.recv_each(PeerSet::kHost).step();
  at -= collect_steps(p, true);
  const std::int32_t exchange = exchange_steps(s, p, true);
  return at < exchange ? meet_leaders(s, p, at) : step.send(hosts::other(s, p, at - exchange)).step();
}

TUTTI_HD constexpr std::uint32_t barrier_steps(const Shape& s) { return steps(s, true); }

inline constexpr Algorithm kAllReduce{.name = "hierarchical_leaders",
                                      .collective = Collective::kAllReduce,
                                      .promises = {Reduces::kInOwnOrder, ByReference::kAlways, BlockSizes::kEqual},
                                      .hierarchical = true,
                                      .max_lanes = 32,
                                      .steps = all_reduce_steps,
                                      .extent = all_reduce_extent,
                                      .step = all_reduce_step};
inline constexpr Algorithm kBarrier{.name = "hierarchical",
                                    .collective = Collective::kBarrier,
                                    .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kEqual},
                                    .hierarchical = true,
                                    .max_lanes = 1,
                                    .steps = barrier_steps,
                                    .extent = barrier_extent,
                                    .step = barrier_step};

}  // namespace tutti::hierarchical_leaders
