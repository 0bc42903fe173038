// All-reduce in few hops where ranks span H hosts: each lane's data has a share a driver (host_layout.h), and the d-th
// drivers of all hosts reduce share d by a recursive exchange (host_rounds.h), so that all ranks of a host use the
// network at once. With S bytes and rounds of four hosts:
//
//   recursive_exchange   in each round a driver sends its share to the others of its group and adds up what they sent:
//                        log4 H hops, 3S log4 H bytes over each host's link in each direction
//   scatter_exchange_k   the first k rounds divide the share among the group, and k rounds at the end gather it again:
//                        log4 H + k hops, 2S(1 - 1/p) + 3S/p (log4 H - k) bytes, with p = 4^k parts
//
// The second is Rabenseifner's algorithm (2004) in groups, which stops dividing where a part's bytes are worth less
// than a hop: halving to the end takes as many hops again, and messages of as many chunks as there are hosts.
//
// First each host's ranks send every driver what they have of its share, and at the end it sends them the result; with
// two rounds that scatter or more it does so in pieces, one for each host of the first round's group, so that one piece
// crosses the network while the next one is collected. Guests (host_rounds.h) hand their share to the driver of their
// host and get the result back.
//
// Operands ascend in their lowest ranks because hosts do: the groups of a round hold hosts from the group's first on,
// and guests, which come second, have the highest numbers.
//
// A round that does not divide keeps its partial result in scratch, so that the sum never overwrites what a peer may
// still be reading. A round that scatters keeps it in the output: a range that was sent to a peer is overwritten by the
// result that comes back from this peer, which has read the range by then.
//
// `tutti-plan all_reduce --ranks 4 --hosts 2 --algo scatter_exchange_1 --grid` (drawing.h says how to read it):
//
//   rank 0   2x2 >1   <h +0x2=   1 >2   <g1 +0=   0 >2   <2 1=   0x2 >1   <1 2x2=
//   rank 1   0x2 >0   <h +2x2=   3 >3   <g1 +2=   2 >3   <3 3=   2x2 >0   <0 0x2=
//   rank 2   2x2 >3   <h +0x2=   0 >0   <g1 +1=   1 >0   <0 0=   0x2 >3   <3 2x2=
//   rank 3   0x2 >2   <h +2x2=   2 >1   <g1 +3=   3 >1   <1 2=   2x2 >2   <2 0x2=
#pragma once

#include "collectives/hierarchical/exchange_work.h"

namespace tutti::recursive_exchange {

/// In what follows q counts pieces, k other ranks of the host, `at` steps.

/// ---- within the host, before the rounds ----

TUTTI_HD constexpr Step share(const Work& w, std::int32_t q, std::int32_t k) {
  const std::int32_t driver = hosts::driver_right(w.p, k);
  StepBuilder step = w.on(driver, w.collected_piece(q));
  return take(step, BufferId::kInput).send(w.neighbour(driver)).step();
}

TUTTI_HD constexpr Step collect(const Work& w, std::int32_t q) {
  StepBuilder step = w.on(w.p.index, w.collected_piece(q));
  w.p.size > 1 ? reduce(step.recv_each(PeerSet::kHost), BufferId::kInput) : take(step, BufferId::kInput);
  if (w.passes_on() && q + 1 < w.x.pieces) {
    return step.send(w.driver_of(host_rounds::member(host_rounds::group(w.s, 0), w.p.host, q))).step();
  }
  return store(step, w.scatters() ? BufferId::kOutput : BufferId::kScratch).step();
}

TUTTI_HD constexpr std::int32_t collect_steps(const Work& w) {
  const std::int32_t collects = w.p.drives() && w.collects() ? 1 : 0;
  return w.x.pieces * (hosts::other_drivers(w.p) + collects);
}
TUTTI_HD constexpr Step collect_step(const Work& w, std::int32_t at) {
  const std::int32_t each = collect_steps(w) / w.x.pieces;
  const std::int32_t k = at % each;
  return k < hosts::other_drivers(w.p) ? share(w, at / each, k) : collect(w, at / each);
}

/// ---- between hosts ----

/// A guest hands its share over, or takes the result.
TUTTI_HD constexpr Step visit(const Work& w, bool hands_over) {
  const std::int32_t host = w.driver_of(host_rounds::host_of_guest(w.s, w.p.host));
  StepBuilder step = w.on(w.p.index, w.whole());
  if (hands_over) return take(step, w.collected()).send(host).step();
  return store(step.recv(host), BufferId::kOutput).step();
}

/// Takes a guest's share in, or hands the result back.
TUTTI_HD constexpr Step host_guest(const Work& w, bool takes_in) {
  const std::int32_t guest = w.driver_of(host_rounds::guest_of(w.s, w.p.host));
  StepBuilder step = w.on(w.p.index, w.whole());
  if (!takes_in) return take(step, BufferId::kOutput).send(guest).step();
  reduce(step.recv(guest), w.collected(), true);
  return store(step, w.scatters() ? BufferId::kOutput : BufferId::kScratch).step();
}

/// A round sends to each other host of the group its range of what is divided, then adds up what they sent of the own
/// one. The first round's messages went when they were collected.
TUTTI_HD constexpr std::int32_t scatter_sends(const Work& w, std::int32_t round) {
  const bool sent = round == 0 && w.passes_on() && w.collects();
  return sent ? 0 : host_rounds::group(w.s, round).members - 1;
}
TUTTI_HD constexpr Step scatter_step(const Work& w, std::int32_t round, std::int32_t at) {
  const HostGroup group = host_rounds::group(w.s, round);
  const bool fresh = round == 0 && !w.x.has_guest;
  const BufferId partial = fresh ? w.collected() : BufferId::kOutput;
  if (at < scatter_sends(w, round)) {
    const std::int32_t peer = host_rounds::member(group, w.p.host, at);
    StepBuilder step = w.on(w.p.index, w.range_after(peer, round + 1));
    return take(step, partial).send(w.driver_of(peer)).step();
  }
  StepBuilder step = w.on(w.p.index, w.range_after(w.p.host, round + 1));
  reduce(step.recv_each(group), partial);
  if (round + 1 == w.x.rounds) return store(step.complete(), BufferId::kOutput).step();
  return store(step, round + 1 == w.x.scattered ? BufferId::kScratch : BufferId::kOutput).step();
}

/// A round that does not divide: all that is left goes to each other host of the group, and all get the sum.
TUTTI_HD constexpr Step multiply_step(const Work& w, std::int32_t round, std::int32_t at) {
  const HostGroup group = host_rounds::group(w.s, round);
  StepBuilder step = w.on(w.p.index, w.range_after(w.p.host, w.x.scattered));
  if (at < group.members - 1) {
    return take(step, BufferId::kScratch).send(w.driver_of(host_rounds::member(group, w.p.host, at))).step();
  }
  reduce(step.recv_each(group), BufferId::kScratch);
  if (round + 1 < w.x.rounds) return store(step, BufferId::kScratch).step();
  return store(step.complete(), BufferId::kOutput).step();
}

/// The way back of a round that scattered: the own range to each other host of the group, then theirs from each. What
/// the host before sends first comes from it first.
TUTTI_HD constexpr Step gather_step(const Work& w, std::int32_t round, std::int32_t at) {
  const HostGroup group = host_rounds::group(w.s, round);
  const std::int32_t others = group.members - 1;
  if (at < others) {
    StepBuilder step = w.on(w.p.index, w.range_after(w.p.host, round + 1));
    return take(step, BufferId::kOutput).send(w.driver_of(host_rounds::member(group, w.p.host, at))).step();
  }
  const std::int32_t peer = host_rounds::member(group, w.p.host, 2 * others - 1 - at);
  StepBuilder step = w.on(w.p.index, w.range_after(peer, round + 1));
  return store(step.recv(w.driver_of(peer)), BufferId::kOutput).step();
}

/// Steps of a driver's exchange. What the last round of the way back receives comes after them if it goes on piece by
/// piece.
TUTTI_HD constexpr std::int32_t exchange_steps(const Work& w) {
  if (w.x.is_guest) return 2;
  std::int32_t steps = w.x.has_guest ? 1 : 0;
  for (std::int32_t r = 0; r < w.x.rounds; ++r) {
    const std::int32_t others = host_rounds::group(w.s, r).members - 1;
    const bool gathers_all = r > 0 || w.x.pieces == 1;
    steps += r < w.x.scattered ? scatter_sends(w, r) + 1 + (gathers_all ? 2 : 1) * others : others + 1;
  }
  return steps;
}
TUTTI_HD constexpr Step exchange_step(const Work& w, std::int32_t at) {
  if (w.x.is_guest) return visit(w, at == 0);
  if (w.x.has_guest && at-- == 0) return host_guest(w, true);
  for (std::int32_t r = 0; r < w.x.rounds; ++r) {
    const bool scatters = r < w.x.scattered;
    const std::int32_t steps = 1 + (scatters ? scatter_sends(w, r) : host_rounds::group(w.s, r).members - 1);
    if (at < steps) return scatters ? scatter_step(w, r, at) : multiply_step(w, r, at);
    at -= steps;
  }
  std::int32_t r = w.x.scattered - 1;
  for (; r > 0; --r) {
    const std::int32_t steps = 2 * (host_rounds::group(w.s, r).members - 1);
    if (at < steps) return gather_step(w, r, at);
    at -= steps;
  }
  return gather_step(w, r, at);
}

/// ---- within the host, after the rounds ----

TUTTI_HD constexpr Step give(const Work& w, std::int32_t q, std::int32_t k) {
  StepBuilder step = w.on(w.p.index, w.given_piece(q));
  return take(step, BufferId::kOutput).send(hosts::other(w.s, w.p, k)).step();
}
TUTTI_HD constexpr Step take_given(const Work& w, std::int32_t q, std::int32_t k) {
  const std::int32_t driver = hosts::driver_left(w.p, k);
  StepBuilder step = w.on(driver, w.given_piece(q));
  return store(step.recv(w.neighbour(driver)), BufferId::kOutput).step();
}

/// For each piece: it comes from the first round's group, but for the own one; it goes to the host's ranks; and those
/// of the other drivers come, one piece later so that the network does not wait for them. At last the guest gets all.
struct Hand {
  std::int32_t arrivals;  ///< 1 if a piece comes from another host
  std::int32_t gives;
  std::int32_t takes;
};
TUTTI_HD constexpr Hand hand_of(const Work& w) {
  const bool drives = w.p.drives();
  return Hand{drives && w.x.pieces > 1 && !w.x.is_guest ? 1 : 0, drives ? w.p.others() : 0, hosts::other_drivers(w.p)};
}
TUTTI_HD constexpr std::int32_t hand_steps(const Work& w) {
  const Hand hand = hand_of(w);
  const std::int32_t guest = w.p.drives() && w.x.has_guest ? 1 : 0;
  return w.x.pieces * (hand.arrivals + hand.gives + hand.takes) - hand.arrivals + guest;
}
TUTTI_HD constexpr Step hand_step(const Work& w, std::int32_t at) {
  const Hand hand = hand_of(w);
  if (at < hand.gives) return give(w, 0, at);
  at -= hand.gives;
  const std::int32_t each = hand.arrivals + hand.gives + hand.takes;
  const std::int32_t q = each == 0 ? w.x.pieces : 1 + at / each;
  if (q >= w.x.pieces) {
    const std::int32_t rest = at - (w.x.pieces - 1) * each;
    return rest < hand.takes ? take_given(w, w.x.pieces - 1, rest) : host_guest(w, false);
  }
  at %= each;
  if (at < hand.arrivals) return gather_step(w, 0, w.x.pieces - 1 + q - 1);
  at -= hand.arrivals;
  return at < hand.gives ? give(w, q, at) : take_given(w, q - 1, at - hand.gives);
}

template <std::int32_t kScattered>
TUTTI_HD constexpr Extent extent(const Shape& s) {
  const Work w = work_of(s, 0, kScattered);
  const auto lanes = static_cast<std::uint32_t>(s.lanes);
  const auto parts = static_cast<std::uint32_t>(w.x.parts);
  const bool all_scattered = s.ranks > 1 && w.x.scattered == w.x.rounds;
  return Extent{lanes * static_cast<std::uint32_t>(w.p.drivers) * parts, 1, 1, all_scattered ? 0 : lanes, parts};
}

template <std::int32_t kScattered>
TUTTI_HD constexpr std::uint32_t steps(const Shape& s) {
  if (s.ranks == 1) return 1;
  const Work w = work_of(s, 0, kScattered);
  const std::int32_t exchange = w.p.drives() ? exchange_steps(w) : 0;
  return static_cast<std::uint32_t>(collect_steps(w) + exchange + hand_steps(w));
}

template <std::int32_t kScattered>
TUTTI_HD constexpr Step step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const Work w = work_of(s, lane, kScattered);
  auto at = static_cast<std::int32_t>(i);
  const std::int32_t collect = collect_steps(w);
  if (at < collect) return collect_step(w, at);
  at -= collect;
  const std::int32_t exchange = w.p.drives() ? exchange_steps(w) : 0;
  return at < exchange ? exchange_step(w, at) : hand_step(w, at - exchange);
}

template <std::int32_t kScattered>
constexpr Algorithm algorithm(const char* name) {
  return {.name = name,
          .collective = Collective::kAllReduce,
          .promises = {Reduces::kInOwnOrder, ByReference::kAlways, BlockSizes::kEqual},
          .hierarchical = true,
          .serves_alone = true,
          .second_lane = SecondLane::kBetweenHosts,
          .max_lanes = 32,
          .steps = steps<kScattered>,
          .extent = extent<kScattered>,
          .step = step<kScattered>};
}
inline constexpr Algorithm kAllReduce = algorithm<0>("recursive_exchange");
inline constexpr Algorithm kAllReduceScatter1 = algorithm<1>("scatter_exchange_1");
inline constexpr Algorithm kAllReduceScatter2 = algorithm<2>("scatter_exchange_2");
inline constexpr Algorithm kAllReduceScatter3 = algorithm<3>("scatter_exchange_3");

}  // namespace tutti::recursive_exchange
