// Hierarchical broadcast, where ranks span hosts; two forms.
//
//   hierarchical       for large sizes. Each lane's data has a part a driver (host_layout.h). The root hands part d to
//                      driver d of its host; from there it goes down a chain of hosts from d-th driver to d-th driver,
//                      and each driver hands it to the other ranks of its host. All drivers use the network at once,
//                      the data cross each host's link once in each direction, and tiles follow one another.
//   hierarchical_tree  for small sizes: a binomial tree (tree.h) of hosts, the root and the other hosts' first ranks
//                      standing for them, then from these to the other ranks of each host.
#pragma once

#include "collectives/hierarchical/host_layout.h"
#include "collectives/tree.h"
#include "schedule/step_builder.h"

namespace tutti::hierarchical_broadcast {

using hosts::Place;

TUTTI_HD constexpr Extent chain_extent(const Shape& s) {
  return Extent{static_cast<std::uint32_t>(s.lanes * hosts::drivers(s)), 1, 1, 0};
}

/// Whether the rank's host is the root's.
TUTTI_HD constexpr bool at_home(const Shape& s, const Place& p) { return hosts::host_of(s, s.root) == p.host; }

/// Ranks of its host that a driver hands its part to.
TUTTI_HD constexpr std::int32_t receivers(const Shape& s, const Place& p) {
  return p.others() - (at_home(s, p) && s.rank != s.root ? 1 : 0);
}
/// The k-th of them, which the root is not.
TUTTI_HD constexpr std::int32_t receiver(const Shape& s, const Place& p, std::int32_t k) {
  const std::int32_t root_at =
      at_home(s, p) && s.rank != s.root ? wrap(hosts::index_of(s, s.root) - p.index - 1, p.size) : p.size;
  return hosts::other(s, p, k < root_at ? k : k + 1);
}

TUTTI_HD constexpr std::uint32_t chain_steps(const Shape& s) {
  const Place p = hosts::place_of(s);
  const std::int32_t others = p.drivers - (p.drives() ? 1 : 0);
  return static_cast<std::uint32_t>((p.drives() ? 1 + receivers(s, p) : 0) + others);
}

TUTTI_HD constexpr std::uint32_t part_of(const Place& p, std::uint32_t lane, std::int32_t driver) {
  return lane * static_cast<std::uint32_t>(p.drivers) + static_cast<std::uint32_t>(driver);
}

/// A driver's own part, from the root or the host before, to the next host.
TUTTI_HD constexpr Step pass(const Shape& s, const Place& p, std::uint32_t lane) {
  const std::uint32_t part = part_of(p, lane, p.index);
  const std::int32_t next = wrap(p.host + 1, p.hosts);
  StepBuilder step(lane, part);
  if (s.rank == s.root) {
    step.take(BufferId::kInput, part);
  } else {
    step.recv(at_home(s, p) ? s.root : hosts::rank_at(s, wrap(p.host - 1, p.hosts), p.index));
  }
  step.store(BufferId::kOutput, part);
  if (next != hosts::host_of(s, s.root)) step.send(hosts::rank_at(s, next, p.index));
  return step.step();
}

/// The k-th other driver's part: the root gives it to that driver, others get it from there.
TUTTI_HD constexpr Step exchange(const Shape& s, const Place& p, std::uint32_t lane, std::int32_t k) {
  const bool root = s.rank == s.root;
  const std::int32_t right = p.index + k + (p.drives() ? 1 : 0);
  const std::int32_t driver = wrap(root ? right : p.index - 1 - k, p.drivers);
  const std::int32_t peer = hosts::rank_at(s, p.host, driver);
  const std::uint32_t part = part_of(p, lane, driver);
  StepBuilder step(lane, part);
  root ? step.take(BufferId::kInput, part) : step.recv(peer);
  step.store(BufferId::kOutput, part);
  return root ? step.send(peer).step() : step.step();
}

/// The root serves the other drivers before the rest of its host; drivers hand on before they wait for other parts.
TUTTI_HD constexpr Step chain_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  const Place p = hosts::place_of(s);
  const bool root = s.rank == s.root;
  auto at = static_cast<std::int32_t>(i);
  if (!p.drives()) return exchange(s, p, lane, at);
  if (at == 0) return pass(s, p, lane);
  --at;
  const std::int32_t first = root ? p.drivers - 1 : receivers(s, p);
  if (root == (at < first)) return exchange(s, p, lane, root ? at : at - first);
  const std::uint32_t part = part_of(p, lane, p.index);
  const BufferId from = root ? BufferId::kInput : BufferId::kOutput;
  return StepBuilder(lane, part).take(from, part).send(receiver(s, p, root ? at - first : at)).step();
}

/// ---- tree ----

TUTTI_HD constexpr Extent tree_extent(const Shape& s) { return Extent{static_cast<std::uint32_t>(s.lanes), 1, 1, 0}; }

/// Who stands for a host.
TUTTI_HD constexpr std::int32_t head_of(const Shape& s, std::int32_t host) {
  return host == hosts::host_of(s, s.root) ? s.root : hosts::rank_at(s, host, 0);
}

/// Messages that a head sends: to hosts below, then to its own.
TUTTI_HD constexpr std::int32_t tree_sends(const Shape& s, const Place& p) {
  return s.rank == head_of(s, p.host) ? tree::children_of(hosts::circle(s)) + p.others() : 0;
}
TUTTI_HD constexpr std::uint32_t tree_steps(const Shape& s) {
  const std::int32_t sends = tree_sends(s, hosts::place_of(s));
  return sends > 1 ? static_cast<std::uint32_t>(sends) : 1;
}

TUTTI_HD constexpr Step tree_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  const Place p = hosts::place_of(s);
  const Shape circle = hosts::circle(s);
  const std::int32_t head = head_of(s, p.host);
  const bool root = s.rank == s.root;
  StepBuilder step(lane, lane);
  if (i > 0 || root) {
    step.take(root ? BufferId::kInput : BufferId::kOutput, lane);
  } else {
    step.recv(s.rank == head ? head_of(s, tree::parent(circle)) : head);
  }
  if (i == 0) step.store(BufferId::kOutput, lane);
  const auto at = static_cast<std::int32_t>(i);
  const std::int32_t below = s.rank == head ? tree::children_of(circle) : 0;
  if (at < below) return step.send(head_of(s, tree::child(circle, below - 1 - at))).step();
  if (at < tree_sends(s, p)) step.send(hosts::other(s, p, at - below));
  return step.step();
}

inline constexpr Algorithm kChain{.name = "hierarchical",
                                  .collective = Collective::kBroadcast,
                                  .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kEqual},
                                  .hierarchical = true,
                                  .tiles = Tiles::kDownHosts,
                                  .second_lane = SecondLane::kBetweenHosts,
                                  .max_lanes = 32,
                                  .steps = chain_steps,
                                  .extent = chain_extent,
                                  .step = chain_step};
inline constexpr Algorithm kTree{.name = "hierarchical_tree",
                                 .collective = Collective::kBroadcast,
                                 .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kEqual},
                                 .hierarchical = true,
                                 .max_lanes = 32,
                                 .steps = tree_steps,
                                 .extent = tree_extent,
                                 .step = tree_step};

}  // namespace tutti::hierarchical_broadcast
