// Hierarchical reduce, where ranks span hosts: each host's head (the root on its host, elsewhere the first rank) adds
// up what its host has, in rank order and in one pass; then a binomial tree of hosts (tree.h), their heads standing for
// them, as in hierarchical_broadcast.h backwards. One message from each host but the root's, ceil(log2 H) hops across
// the network. A host's number follows its lowest rank, so the tree's order of hosts is that of the lowest ranks.
#pragma once

#include "collectives/hierarchical/hierarchical_broadcast.h"
#include "collectives/hierarchical/host_layout.h"
#include "collectives/tree.h"
#include "schedule/step_builder.h"

namespace tutti::hierarchical_reduce {

using hosts::Place;

/// What a rank does: nothing but send, or collect from its host and from the hosts below.
struct Work {
  std::int32_t collects = 0;  ///< 1: a head that is not alone on its host
  std::int32_t children = 0;  ///< of a head's host in the tree

  TUTTI_HD constexpr std::int32_t reductions() const { return collects + children; }
};
TUTTI_HD constexpr Work work_of(const Shape& s, const Place& p) {
  if (s.rank != hierarchical_broadcast::head_of(s, p.host)) return Work{};
  return Work{p.size > 1 ? 1 : 0, tree::children_of(hosts::circle(s))};
}

TUTTI_HD constexpr std::uint32_t steps(const Shape& s) {
  const std::int32_t reductions = work_of(s, hosts::place_of(s)).reductions();
  return reductions > 1 ? static_cast<std::uint32_t>(reductions) : 1;
}
TUTTI_HD constexpr Extent extent(const Shape& s) {
  const auto lanes = static_cast<std::uint32_t>(s.lanes);
  const bool keeps = s.rank != s.root && work_of(s, hosts::place_of(s)).reductions() > 1;
  return Extent{lanes, 1, 1, keeps ? lanes : 0};
}

TUTTI_HD constexpr Step step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const Place p = hosts::place_of(s);
  const Work work = work_of(s, p);
  const Shape circle = hosts::circle(s);
  const bool root = s.rank == s.root;
  const std::int32_t head = hierarchical_broadcast::head_of(s, p.host);
  const std::int32_t up = s.rank == head ? hierarchical_broadcast::head_of(s, tree::parent(circle)) : head;
  const auto at = static_cast<std::int32_t>(i);
  StepBuilder step(lane, lane);
  if (work.reductions() == 0) return step.take(BufferId::kInput, lane).send(up).step();
  const BufferId partial = root ? BufferId::kOutput : BufferId::kScratch;
  const BufferId own = at == 0 ? BufferId::kInput : partial;
  if (at < work.collects) {
    step.recv_each(PeerSet::kHost).reduce(own, lane);
  } else {
    const std::int32_t child = at - work.collects;
    step.recv(hierarchical_broadcast::head_of(s, tree::child(circle, child)));
    step.reduce(own, lane, tree::own_is_left(circle, child));
  }
  const bool last = at + 1 == work.reductions();
  if (last && root) step.complete();
  return last && !root ? step.send(up).step() : step.store(partial, lane).step();
}

/// These two steps are for algorithms in which each driver adds up a share of the data (hierarchical_double_tree.h,
/// hierarchical_knomial.h). In the first one this rank sends the k-th other driver what it has of that driver's share;
/// in the second one the root receives the sum of a share.
TUTTI_HD constexpr Step contribute(const Shape& s, const Place& p, std::uint32_t lane, std::int32_t k) {
  const std::int32_t driver = hosts::driver_right(p, k);
  const std::uint32_t share = hierarchical_broadcast::part_of(p, lane, driver);
  return StepBuilder(lane, share).take(BufferId::kInput, share).send(hosts::rank_at(s, p.host, driver)).step();
}
TUTTI_HD constexpr Step fetch(const Shape& s, const Place& p, std::uint32_t lane, std::int32_t k) {
  const std::int32_t driver = hosts::driver_left(p, k);
  const std::uint32_t share = hierarchical_broadcast::part_of(p, lane, driver);
  return StepBuilder(lane, share).recv(hosts::rank_at(s, p.host, driver)).store(BufferId::kOutput, share).step();
}

inline constexpr Algorithm kTree{.name = "hierarchical_tree",
                                 .collective = Collective::kReduce,
                                 .promises = {Reduces::kInOwnOrder, ByReference::kAlways, BlockSizes::kEqual},
                                 .hierarchical = true,
                                 .max_lanes = 32,
                                 .steps = steps,
                                 .extent = extent,
                                 .step = step};

}  // namespace tutti::hierarchical_reduce
