// Broadcast and reduce of small and middle sizes where ranks span H hosts: a k-nomial tree of hosts (knomial.h), which
// is lower than a binomial one where a hop costs more than a message. Each lane's data has a share a driver
// (host_layout.h), and the d-th drivers of all hosts are such a tree, so that a rank sends or adds a share where a head
// of a host alone (hierarchical_broadcast.h, hierarchical_reduce.h) would do so with all of the data.
//
//   broadcast    the root hands share d to driver d of its host; from there it goes down the tree, the deepest child
//                first, and each driver hands it to the other ranks of its host
//   reduce       a host's ranks send every driver what they have of its share. It adds that up, then what comes from
//                the hosts below, the nearest first, and sends the sum up; on the root's host, to the root
//
// ceil(log_k H) hops across the network. A host sends at most S (k-1) ceil(log_k H) bytes, so this is for data that the
// link carries in less time than a hop takes. Large data go by double trees (hierarchical_double_tree.h).
//
// `tutti-plan broadcast --ranks 6 --hosts 3 --algo hierarchical_knomial_4 --grid` (drawing.h says how to read it):
//
//   rank 0   1= >1      0= >4   0 >2    0 >1
//   rank 1   <0 1= >5   1 >3    <0 0=
//   rank 2   <0 0=      0 >3    <3 1=
//   rank 3   <1 1=      1 >2    <2 0=
//   rank 4   <0 0=      0 >5    <5 1=
//   rank 5   <1 1=      1 >4    <4 0=
#pragma once

#include "collectives/hierarchical/hierarchical_broadcast.h"
#include "collectives/hierarchical/hierarchical_reduce.h"
#include "collectives/hierarchical/host_layout.h"
#include "collectives/knomial.h"
#include "schedule/step_builder.h"

namespace tutti::hierarchical_knomial {

using hosts::Place;

/// One lane of one rank.
template <std::int32_t kRadix>
struct Work {
  const Shape& s;
  Place p;
  Shape circle;  ///< of the hosts
  std::uint32_t lane;

  TUTTI_HD constexpr Work(const Shape& shape, std::uint32_t lane)
      : s(shape), p(hosts::place_of(shape)), circle(hosts::circle(shape)), lane(lane) {}

  TUTTI_HD constexpr bool is_root() const { return s.rank == s.root; }
  TUTTI_HD constexpr std::uint32_t share() const { return hierarchical_broadcast::part_of(p, lane, p.index); }
  TUTTI_HD constexpr StepBuilder on_share() const { return StepBuilder(lane, share()); }

  /// Hosts below this one.
  TUTTI_HD constexpr std::int32_t children() const {
    return knomial::children_of<kRadix>(circle, knomial::place_of(circle));
  }
  TUTTI_HD constexpr knomial::Edge edge(std::int32_t k) const {
    return knomial::edge<kRadix>(circle, knomial::place_of(circle), k);
  }
  /// The driver with this rank's place on the k-th host below, from the nearest on.
  TUTTI_HD constexpr std::int32_t child(std::int32_t k) const {
    return hosts::rank_at(s, knomial::child(circle, edge(k)), p.index);
  }
  /// Whom a driver gets its share from, or hands the sum to, if it is not the root.
  TUTTI_HD constexpr std::int32_t above() const {
    if (hierarchical_broadcast::at_home(s, p)) return s.root;
    return hosts::rank_at(s, knomial::parent<kRadix>(circle), p.index);
  }
};

/// ---- broadcast ----

/// Steps that get a driver's share and send it down.
TUTTI_HD constexpr std::int32_t pass_steps(std::int32_t children) { return children > 1 ? children : 1; }
template <std::int32_t kRadix>
TUTTI_HD constexpr Step pass(const Work<kRadix>& w, std::int32_t at) {
  StepBuilder step = w.on_share();
  if (at > 0 || w.is_root()) {
    step.take(w.is_root() ? BufferId::kInput : BufferId::kOutput, w.share());
  } else {
    step.recv(w.above());
  }
  if (at == 0) step.store(BufferId::kOutput, w.share());
  const std::int32_t children = w.children();
  if (at < children) step.send(w.child(children - 1 - at));
  return step.step();
}

template <std::int32_t kRadix>
TUTTI_HD constexpr std::uint32_t broadcast_steps(const Shape& s) {
  if (s.ranks == 1) return 1;
  const Work<kRadix> w(s, 0);
  const std::int32_t own = w.p.drives() ? pass_steps(w.children()) + hierarchical_broadcast::receivers(s, w.p) : 0;
  return static_cast<std::uint32_t>(own + hosts::other_drivers(w.p));
}

/// The root serves the other drivers first, whose messages within the host cost little. Others hand on before they wait
/// for the other drivers' shares.
template <std::int32_t kRadix>
TUTTI_HD constexpr Step broadcast_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const Work<kRadix> w(s, lane);
  auto at = static_cast<std::int32_t>(i);
  const std::int32_t others = w.is_root() || !w.p.drives() ? hosts::other_drivers(w.p) : 0;
  if (at < others) return hierarchical_broadcast::exchange(s, w.p, lane, at);
  at -= others;
  const std::int32_t passes = pass_steps(w.children());
  if (at < passes) return pass(w, at);
  at -= passes;
  if (at >= hierarchical_broadcast::receivers(s, w.p))
    return hierarchical_broadcast::exchange(s, w.p, lane, at - hierarchical_broadcast::receivers(s, w.p));
  const BufferId from = w.is_root() ? BufferId::kInput : BufferId::kOutput;
  return w.on_share().take(from, w.share()).send(hierarchical_broadcast::receiver(s, w.p, at)).step();
}

/// ---- reduce ----

/// Reductions of a driver: of its host's contributions, and with each child's. A driver with nothing to add only sends.
template <std::int32_t kRadix>
TUTTI_HD constexpr std::int32_t reductions(const Work<kRadix>& w) {
  return w.p.drives() ? (w.p.size > 1 ? 1 : 0) + w.children() : 0;
}
template <std::int32_t kRadix>
TUTTI_HD constexpr std::int32_t sum_steps(const Work<kRadix>& w) {
  const std::int32_t adds = reductions(w);
  return w.p.drives() && adds == 0 ? 1 : adds;
}
template <std::int32_t kRadix>
TUTTI_HD constexpr Step sum(const Work<kRadix>& w, std::int32_t at) {
  StepBuilder step = w.on_share();
  const BufferId partial = w.is_root() ? BufferId::kOutput : BufferId::kScratch;
  const BufferId own = at == 0 ? BufferId::kInput : partial;
  const std::uint32_t place = w.is_root() ? w.share() : w.lane;
  const std::uint32_t chunk = at == 0 ? w.share() : place;
  if (reductions(w) == 0) return step.take(own, chunk).send(w.above()).step();
  const std::int32_t child = at - (w.p.size > 1 ? 1 : 0);
  if (child < 0) {
    step.recv_each(PeerSet::kHost).reduce(own, chunk);
  } else {
    step.recv(w.child(child)).reduce(own, chunk, knomial::own_is_left(w.circle, w.edge(child)));
  }
  const bool last = at + 1 == reductions(w);
  if (last && hierarchical_broadcast::at_home(w.s, w.p)) step.complete();
  return last && !w.is_root() ? step.send(w.above()).step() : step.store(partial, place).step();
}

template <std::int32_t kRadix>
TUTTI_HD constexpr std::uint32_t reduce_steps(const Shape& s) {
  if (s.ranks == 1) return 1;
  const Work<kRadix> w(s, 0);
  return static_cast<std::uint32_t>((w.is_root() ? 2 : 1) * hosts::other_drivers(w.p) + sum_steps(w));
}
template <std::int32_t kRadix>
TUTTI_HD constexpr Step reduce_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const Work<kRadix> w(s, lane);
  const std::int32_t others = hosts::other_drivers(w.p);
  auto at = static_cast<std::int32_t>(i);
  if (at < others) return hierarchical_reduce::contribute(s, w.p, lane, at);
  at -= others;
  if (at < sum_steps(w)) return sum(w, at);
  return hierarchical_reduce::fetch(s, w.p, lane, at - sum_steps(w));
}

/// Scratch has a chunk a lane.
template <std::int32_t kRadix>
TUTTI_HD constexpr Extent reduce_extent(const Shape& s) {
  const bool keeps = s.rank != s.root && reductions(Work<kRadix>(s, 0)) > 1;
  const auto lanes = static_cast<std::uint32_t>(s.lanes);
  return Extent{lanes * static_cast<std::uint32_t>(hosts::drivers(s)), 1, 1, keeps ? lanes : 0};
}

template <std::int32_t kRadix>
constexpr Algorithm broadcast(const char* name) {
  return Algorithm{.name = name,
                   .collective = Collective::kBroadcast,
                   .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kEqual},
                   .hierarchical = true,
                   .max_lanes = 32,
                   .steps = broadcast_steps<kRadix>,
                   .extent = hierarchical_broadcast::chain_extent,
                   .step = broadcast_step<kRadix>};
}
template <std::int32_t kRadix>
constexpr Algorithm reduce(const char* name) {
  return Algorithm{.name = name,
                   .collective = Collective::kReduce,
                   .promises = {Reduces::kInOwnOrder, ByReference::kAlways, BlockSizes::kEqual},
                   .hierarchical = true,
                   .max_lanes = 32,
                   .steps = reduce_steps<kRadix>,
                   .extent = reduce_extent<kRadix>,
                   .step = reduce_step<kRadix>};
}

inline constexpr Algorithm kBroadcast4 = broadcast<4>("hierarchical_knomial_4");
inline constexpr Algorithm kBroadcast8 = broadcast<8>("hierarchical_knomial_8");
inline constexpr Algorithm kReduce4 = reduce<4>("hierarchical_knomial_4");
inline constexpr Algorithm kReduce8 = reduce<8>("hierarchical_knomial_8");

}  // namespace tutti::hierarchical_knomial
