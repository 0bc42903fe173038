// Broadcast and reduce of middle and large sizes where ranks span H hosts: double trees of hosts (double_tree.h has the
// trees; Sanders, Speck, Traeff 2009; NCCL's are such). Each lane's data has a share a driver (host_layout.h), and the
// d-th drivers of all hosts are a tree, so that all ranks of a host use the network at once. Tiles follow one another
// down or up the trees, whose depth is ceil(log2 H) where a chain has H-1 hops.
//
//   broadcast    the root hands share d to driver d of its host. A driver sends its share to the same drivers of up to
//                two hosts below, and hands it to the other ranks of its host
//   reduce       a host's ranks send every driver what they have of its share. It adds that up, then what comes from up
//                to two hosts below, and sends the sum up; on the root's host, to the root
//
// Even lanes go by the first tree, odd lanes by the second one, in which hosts with children are those that have none
// in the first. So on two lanes S bytes at most cross a host's link each way (on one lane twice as many). A lane never
// waits for the other one: if one lane held both trees, a host would keep those below it in one tree waiting for what
// comes to it last in the other.
//
// All lanes of a rank have as many steps: where a host has fewer children than in the other tree, steps that copy a
// chunk to scratch, which nobody reads, fill the program.
//
// `tutti-plan broadcast --ranks 6 --hosts 3 --algo hierarchical_double_tree --grid` (drawing.h says how to read it):
//
//   rank 0   0= >4      1= >1   0 >1
//   rank 1   <0 1= >5   <0 0=
//   rank 2   <4 0=      0 >3    <3 1=
//   rank 3   <5 1=      1 >2    <2 0=
//   rank 4   <0 0= >2   0 >5    <5 1=
//   rank 5   <1 1= >3   1 >4    <4 0=
#pragma once

#include "collectives/double_tree.h"
#include "collectives/hierarchical/hierarchical_broadcast.h"
#include "collectives/hierarchical/hierarchical_reduce.h"
#include "collectives/hierarchical/host_layout.h"

namespace tutti::hierarchical_double_tree {

using double_tree::Node;
using hosts::Place;

TUTTI_HD constexpr std::uint32_t tree_of(std::uint32_t lane) { return lane % double_tree::kTrees; }

/// The most children that a driver has on any lane.
TUTTI_HD constexpr std::int32_t most_children(const Shape& s) {
  const Shape circle = hosts::circle(s);
  const std::int32_t first = double_tree::node_of(circle, 0).children();
  const std::int32_t second = s.lanes > 1 ? double_tree::node_of(circle, 1).children() : 0;
  return first > second ? first : second;
}

/// One lane of one rank.
struct Work {
  const Shape& s;
  Place p;
  std::uint32_t lane;
  Node node;  ///< of the host in the lane's tree
  std::int32_t most_children;

  TUTTI_HD constexpr std::uint32_t share(std::int32_t driver) const {
    return hierarchical_broadcast::part_of(p, lane, driver);
  }
  TUTTI_HD constexpr StepBuilder on(std::int32_t driver) const { return StepBuilder(lane, share(driver)); }
  TUTTI_HD constexpr bool is_root() const { return s.rank == s.root; }
  TUTTI_HD constexpr bool at_home() const { return node.position == 0; }

  /// The driver with this rank's place on the host at a position of the tree.
  TUTTI_HD constexpr std::int32_t like_at(std::int32_t position) const {
    return hosts::rank_at(s, double_tree::rank_at(hosts::circle(s), tree_of(lane), position), p.index);
  }
  TUTTI_HD constexpr bool is_upper(std::int32_t child) const { return child == 1 || node.lower < 0; }
  TUTTI_HD constexpr std::int32_t child(std::int32_t k) const { return like_at(is_upper(k) ? node.upper : node.lower); }
  /// Whom a driver gets its share from, or hands the sum to, if it is not the root.
  TUTTI_HD constexpr std::int32_t above() const { return at_home() ? s.root : like_at(node.parent); }

  /// Fills the program of the lane that has less to do.
  TUTTI_HD constexpr Step fill(BufferId from) const {
    return on(p.index).take(from, share(p.index)).store(BufferId::kScratch, lane).step();
  }
};
TUTTI_HD constexpr Work work_of(const Shape& s, std::uint32_t lane) {
  const Place p = hosts::place_of(s);
  return Work{s, p, lane, double_tree::node_of(hosts::circle(s), tree_of(lane)), most_children(s)};
}

/// Scratch has one chunk a lane.
TUTTI_HD constexpr Extent extent(const Shape& s) {
  const Place p = hosts::place_of(s);
  const auto lanes = static_cast<std::uint32_t>(s.lanes);
  return Extent{lanes * static_cast<std::uint32_t>(p.drivers), 1, 1, p.drives() && s.ranks > 1 ? lanes : 0};
}

/// ---- broadcast ----

/// Steps that get a share and send it down.
TUTTI_HD constexpr std::int32_t pass_steps(std::int32_t children) { return children > 1 ? children : 1; }
TUTTI_HD constexpr Step pass(const Work& w, std::int32_t at) {
  const std::uint32_t share = w.share(w.p.index);
  StepBuilder step = w.on(w.p.index);
  if (at > 0 || w.is_root()) {
    step.take(w.is_root() ? BufferId::kInput : BufferId::kOutput, share);
  } else {
    step.recv(w.above());
  }
  if (at == 0) step.store(BufferId::kOutput, share);
  if (at < w.node.children()) step.send(w.child(at));
  return step.step();
}

TUTTI_HD constexpr std::uint32_t broadcast_steps(const Shape& s) {
  if (s.ranks == 1) return 1;
  const Place p = hosts::place_of(s);
  const std::int32_t own = p.drives() ? pass_steps(most_children(s)) + hierarchical_broadcast::receivers(s, p) : 0;
  return static_cast<std::uint32_t>(own + hosts::other_drivers(p));
}

/// Hosts below first; then the root serves the other drivers before the rest of its host, and others hand on before
/// they wait for the other drivers' shares.
TUTTI_HD constexpr Step broadcast_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const Work w = work_of(s, lane);
  const Place& p = w.p;
  auto at = static_cast<std::int32_t>(i);
  if (!p.drives()) return hierarchical_broadcast::exchange(s, p, lane, at);
  const std::int32_t passes = pass_steps(w.node.children());
  if (at < passes) return pass(w, at);
  at -= passes;
  const std::int32_t gives = hierarchical_broadcast::receivers(s, p);
  const std::int32_t others = hosts::other_drivers(p);
  if (at >= gives + others) return w.fill(w.is_root() ? BufferId::kInput : BufferId::kOutput);
  const std::int32_t first = w.is_root() ? others : gives;
  const bool exchanges = w.is_root() == (at < first);
  if (at >= first) at -= first;
  if (exchanges) return hierarchical_broadcast::exchange(s, p, lane, at);
  const BufferId from = w.is_root() ? BufferId::kInput : BufferId::kOutput;
  return w.on(p.index).take(from, w.share(p.index)).send(hierarchical_broadcast::receiver(s, p, at)).step();
}

/// ---- reduce ----

/// Reductions of a driver: of its host's contributions, and with each child's.
TUTTI_HD constexpr std::int32_t collects(const Place& p) { return p.size > 1 ? 1 : 0; }
/// A driver with nothing to add only sends.
TUTTI_HD constexpr std::int32_t sum_steps(const Place& p, std::int32_t children) {
  const std::int32_t reductions = collects(p) + children;
  return reductions > 1 ? reductions : 1;
}
TUTTI_HD constexpr Step sum(const Work& w, std::int32_t at) {
  const std::uint32_t share = w.share(w.p.index);
  StepBuilder step = w.on(w.p.index);
  const std::int32_t child = at - collects(w.p);
  if (child < 0) step.recv_each(PeerSet::kHost);
  const bool adds = child < w.node.children();
  if (child >= 0 && adds) step.recv(w.child(child));
  const bool own_left =
      child >= 0 && adds && double_tree::own_is_left(hosts::circle(w.s), tree_of(w.lane), w.node, w.is_upper(child));
  const BufferId own = at == 0 ? BufferId::kInput : BufferId::kScratch;
  const std::uint32_t chunk = at == 0 ? share : w.lane;
  adds ? step.reduce(own, chunk, own_left) : step.take(own, chunk);
  if (at + 1 < sum_steps(w.p, w.node.children())) return step.store(BufferId::kScratch, w.lane).step();
  if (w.at_home()) step.complete();
  return w.is_root() ? step.store(BufferId::kOutput, share).step() : step.send(w.above()).step();
}

TUTTI_HD constexpr std::uint32_t reduce_steps(const Shape& s) {
  if (s.ranks == 1) return 1;
  const Place p = hosts::place_of(s);
  const std::int32_t sums = p.drives() ? sum_steps(p, most_children(s)) : 0;
  return static_cast<std::uint32_t>((s.rank == s.root ? 2 : 1) * hosts::other_drivers(p) + sums);
}
TUTTI_HD constexpr Step reduce_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const Work w = work_of(s, lane);
  const std::int32_t others = hosts::other_drivers(w.p);
  auto at = static_cast<std::int32_t>(i);
  if (at < others) return hierarchical_reduce::contribute(s, w.p, lane, at);
  at -= others;
  const std::int32_t sums = w.p.drives() ? sum_steps(w.p, w.node.children()) : 0;
  if (at < sums) return sum(w, at);
  at -= sums;
  return w.is_root() && at < others ? hierarchical_reduce::fetch(s, w.p, lane, at) : w.fill(BufferId::kInput);
}

inline constexpr Algorithm kBroadcast{.name = "hierarchical_double_tree",
                                      .collective = Collective::kBroadcast,
                                      .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kEqual},
                                      .hierarchical = true,
                                      .serves_alone = true,
                                      .tiles = Tiles::kDownTrees,
                                      .second_lane = SecondLane::kBetweenHosts,
                                      .max_lanes = 32,
                                      .steps = broadcast_steps,
                                      .extent = extent,
                                      .step = broadcast_step};
inline constexpr Algorithm kReduce{.name = "hierarchical_double_tree",
                                   .collective = Collective::kReduce,
                                   .promises = {Reduces::kInOwnOrder, ByReference::kAlways, BlockSizes::kEqual},
                                   .hierarchical = true,
                                   .serves_alone = true,
                                   .tiles = Tiles::kDownTrees,
                                   .second_lane = SecondLane::kBetweenHosts,
                                   .max_lanes = 32,
                                   .steps = reduce_steps,
                                   .extent = extent,
                                   .step = reduce_step};

}  // namespace tutti::hierarchical_double_tree
