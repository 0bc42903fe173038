// Hierarchical all-reduce for large sizes, where ranks span H hosts: reduce within hosts, a ring between them, spread
// within hosts, as one schedule. Each lane's data has a share a driver (host_layout.h), and a share has a part a host.
// Driver d of each host adds up its ranks' contributions to share d; the d-th drivers run a ring all-reduce (ring.h)
// among them, and each hands the finished parts to the other ranks of its host. So all drivers of a host use the
// network at once, and 2(H-1)/H of the data cross each host's link in each direction: the least possible
// (Patarasuk, Yuan 2009). Levels of networks in collectives: Karonis et al., IPDPS 2000.
//
// Rounds follow the ring, t = 0 .. 2H-2, with part k = host - t (modulo H; plus t on odd lanes):
//   share(t)     contributions to part k of every share, to each other driver of the host
//   collect(t)   a driver adds up its host's contributions, in rank order
//   pass(t)      a driver adds what comes from the host before, and sends it on; later passes on finished parts
//   give(t)      a driver sends the finished part to its host's other ranks
//   take(t)      each rank receives the finished parts of the other drivers
// in the order: share 0, collect + pass 0, share 1, collect 1, share 2, collect 2, pass 1, share 3, collect 3, pass 2;
// at the end: pass H-1, give H-1, pass H, take H-1, give H, pass H+1, take H, give H+1. So the next part is collected
// while the network works on the one before, and no driver waits for others of its host before it has passed on what
// the network brought.
//
// A host's number follows its lowest rank, so host order is the order of the lowest ranks that partial results hold,
// whichever ranks share a host.
//
// `tutti-plan all_reduce --ranks 4 --hosts 2 --algo hierarchical --lanes 1 --grid` (drawing.h says how to read it):
//
//   rank 0   2 >1   <h +0 >2   3 >1   <h +1=   <2 +1= >2   1 >1   <2 0=   <1 3=   0 >1   <1 2=
//   rank 1   0 >0   <h +2 >3   1 >0   <h +3=   <3 +3= >3   3 >0   <3 2=   <0 1=   2 >0   <0 0=
//   rank 2   3 >3   <h +1 >0   2 >3   <h +0=   <0 +0= >0   0 >3   <0 1=   <3 2=   1 >3   <3 3=
//   rank 3   1 >2   <h +3 >1   0 >2   <h +2=   <1 +2= >1   2 >2   <1 3=   <2 0=   3 >2   <2 1=
#pragma once

#include "collectives/hierarchical/host_layout.h"
#include "collectives/ring.h"
#include "schedule/step_builder.h"

namespace tutti::hierarchical_ring {

using hosts::Place;

TUTTI_HD constexpr Extent extent(const Shape& s) {
  const auto parts = static_cast<std::uint32_t>(s.lanes * hosts::drivers(s) * hosts::count(s));
  return Extent{parts, 1, 1, 0};
}

/// Part of a share that round t works on.
TUTTI_HD constexpr std::uint32_t chunk_of(const Place& p, std::uint32_t lane, std::int32_t driver, std::int32_t t) {
  const std::int32_t part = wrap(p.host - ring::direction(lane) * t, p.hosts);
  return (lane * static_cast<std::uint32_t>(p.drivers) + static_cast<std::uint32_t>(driver)) *
             static_cast<std::uint32_t>(p.hosts) +
         static_cast<std::uint32_t>(part);
}

TUTTI_HD constexpr Step share(const Shape& s, const Place& p, std::uint32_t lane, std::int32_t t, std::int32_t k) {
  const std::int32_t driver = hosts::driver_right(p, k);
  const std::uint32_t chunk = chunk_of(p, lane, driver, t);
  return StepBuilder(lane, chunk).take(BufferId::kInput, chunk).send(hosts::rank_at(s, p.host, driver)).step();
}

TUTTI_HD constexpr std::int32_t neighbour(const Shape& s, const Place& p, std::uint32_t lane, std::int32_t by) {
  return hosts::rank_at(s, wrap(p.host + by * ring::direction(lane), p.hosts), p.index);
}

/// Round 0 passes on at once what it collects.
TUTTI_HD constexpr Step collect(const Shape& s, const Place& p, std::uint32_t lane, std::int32_t t) {
  const std::uint32_t chunk = chunk_of(p, lane, p.index, t);
  StepBuilder step(lane, chunk);
  p.size > 1 ? step.recv_each(PeerSet::kHost).reduce(BufferId::kInput, chunk) : step.take(BufferId::kInput, chunk);
  return t == 0 ? step.send(neighbour(s, p, lane, 1)).step() : step.store(BufferId::kOutput, chunk).step();
}

TUTTI_HD constexpr Step pass(const Shape& s, const Place& p, std::uint32_t lane, std::int32_t t) {
  const std::uint32_t chunk = chunk_of(p, lane, p.index, t);
  StepBuilder step(lane, chunk);
  step.recv(neighbour(s, p, lane, -1));
  if (t < p.hosts) {
    const BufferId collected = p.size > 1 ? BufferId::kOutput : BufferId::kInput;
    step.reduce(collected, chunk, ring::own_is_left(hosts::circle(s), lane, t));
  }
  if (t == p.hosts - 1) step.complete();
  if (t >= p.hosts - 1) step.store(BufferId::kOutput, chunk);
  if (t < 2 * p.hosts - 2) step.send(neighbour(s, p, lane, 1));
  return step.step();
}

TUTTI_HD constexpr Step give(const Shape& s, const Place& p, std::uint32_t lane, std::int32_t t, std::int32_t k) {
  const std::uint32_t chunk = chunk_of(p, lane, p.index, t);
  return StepBuilder(lane, chunk).take(BufferId::kOutput, chunk).send(hosts::other(s, p, k)).step();
}

TUTTI_HD constexpr Step take(const Shape& s, const Place& p, std::uint32_t lane, std::int32_t t, std::int32_t k) {
  const std::int32_t driver = hosts::driver_left(p, k);
  const std::uint32_t chunk = chunk_of(p, lane, driver, t);
  return StepBuilder(lane, chunk).recv(hosts::rank_at(s, p.host, driver)).store(BufferId::kOutput, chunk).step();
}

/// How many steps of one rank, lane and round belong together.
struct Lengths {
  std::int32_t share;    ///< as many as take
  std::int32_t collect;  ///< but in the first round: 1 if a driver is not alone on its host
  std::int32_t pass;     ///< 1 for drivers
  std::int32_t give;
};
TUTTI_HD constexpr Lengths lengths_of(const Place& p) {
  const std::int32_t share = hosts::other_drivers(p);
  if (!p.drives()) return Lengths{share, 0, 0, 0};
  return Lengths{share, p.size > 1 ? 1 : 0, 1, p.others()};
}

/// There are two hosts or more.
TUTTI_HD constexpr std::uint32_t steps_across(const Place& p) {
  const Lengths n = lengths_of(p);
  const std::int32_t reduction = p.hosts * n.share + n.pass + (p.hosts - 1) * n.collect + (p.hosts - 2) * n.pass;
  return static_cast<std::uint32_t>(reduction + p.hosts * (n.pass + n.give + n.share));
}

/// From the round on in which the reduction ends.
TUTTI_HD constexpr Step end_step(const Shape& s, const Place& p, std::uint32_t lane, std::int32_t at) {
  const Lengths n = lengths_of(p);
  if (at < n.pass) return pass(s, p, lane, p.hosts - 1);
  at -= n.pass;
  if (at < n.give) return give(s, p, lane, p.hosts - 1, at);
  at -= n.give;
  const std::int32_t round = n.pass + n.share + n.give;
  const std::int32_t t = p.hosts + at / round;
  at %= round;
  if (t > 2 * p.hosts - 2) return take(s, p, lane, t - 1, at);
  if (at < n.pass) return pass(s, p, lane, t);
  at -= n.pass;
  return at < n.share ? take(s, p, lane, t - 1, at) : give(s, p, lane, t, at - n.share);
}

TUTTI_HD constexpr Step step_across(const Shape& s, const Place& p, std::uint32_t lane, std::int32_t at) {
  const Lengths n = lengths_of(p);
  if (at < n.share) return share(s, p, lane, 0, at);
  at -= n.share;
  if (at < n.pass) return collect(s, p, lane, 0);
  at -= n.pass;
  if (at < n.share) return share(s, p, lane, 1, at);
  at -= n.share;
  if (at < n.collect) return collect(s, p, lane, 1);
  at -= n.collect;

  const std::int32_t round = n.share + n.collect + n.pass;
  const std::int32_t t = 2 + at / round;
  if (t >= p.hosts) return end_step(s, p, lane, at - (p.hosts - 2) * round);
  at %= round;
  if (at < n.share) return share(s, p, lane, t, at);
  return at < n.share + n.collect ? collect(s, p, lane, t) : pass(s, p, lane, t - 1);
}

TUTTI_HD constexpr std::uint32_t all_reduce_steps(const Shape& s) {
  return hosts::is_flat(s) ? ring::all_reduce_steps(s) : steps_across(hosts::place_of(s));
}
TUTTI_HD constexpr Step all_reduce_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (hosts::is_flat(s)) return ring::all_reduce_step(s, lane, i);
  return step_across(s, hosts::place_of(s), lane, static_cast<std::int32_t>(i));
}

inline constexpr Algorithm kAllReduce{.name = "hierarchical",
                                      .collective = Collective::kAllReduce,
                                      .promises = {Reduces::kInOwnOrder, ByReference::kAlways, BlockSizes::kEqual},
                                      .hierarchical = true,
                                      .second_lane = SecondLane::kBetweenHosts,
                                      .max_lanes = ring::kMaxLanes,
                                      .steps = all_reduce_steps,
                                      .extent = extent,
                                      .step = all_reduce_step};

}  // namespace tutti::hierarchical_ring
