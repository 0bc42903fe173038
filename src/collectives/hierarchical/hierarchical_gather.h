// Hierarchical gather and scatter, where ranks span hosts: each host's first rank, its leader, collects the blocks of
// its host in scratch and sends them to the root, neighbouring ranks' blocks in one message; a scatter is the same
// backwards. The ranks of the root's host have no leader but the root. The blocks cross each host's link once, as they
// must, (n - ranks of one host) S at the root, but in H-1 messages if the ranks of each host follow one another (as
// many as there are such runs of ranks otherwise), instead of n - ranks of one host, and over H-1 connections. Levels
// of networks in collectives: Karonis et al., IPDPS 2000.
#pragma once

#include "collectives/hierarchical/host_layout.h"
#include "schedule/step_builder.h"

namespace tutti::hierarchical_gather {

using hosts::Place;

/// Ranks of a host that follow one another.
struct Run {
  std::int32_t index = 0;   ///< of the first, among those of the host
  std::int32_t length = 0;  ///< 0: there are no more
};
/// The run that begins at this index.
TUTTI_HD constexpr Run run_at(const Shape& s, std::int32_t host, std::int32_t index) {
  Run run{index, 0};
  const std::int32_t left = hosts::size_of(s, host) - index;
  while (run.length < left &&
         hosts::rank_at(s, host, index + run.length) == hosts::rank_at(s, host, index) + run.length) {
    ++run.length;
  }
  return run;
}
TUTTI_HD constexpr std::int32_t runs_of(const Shape& s, std::int32_t host) {
  std::int32_t runs = 0;
  for (Run run = run_at(s, host, 0); run.length > 0; run = run_at(s, host, run.index + run.length)) ++runs;
  return runs;
}
TUTTI_HD constexpr Run run_number(const Shape& s, std::int32_t host, std::int32_t number) {
  Run run = run_at(s, host, 0);
  for (; number > 0; --number) run = run_at(s, host, run.index + run.length);
  return run;
}
TUTTI_HD constexpr std::uint32_t message_chunks(const Shape& s) {
  std::int32_t most = 1;
  for (std::int32_t host = 0; host < hosts::count(s); ++host) {
    for (Run run = run_at(s, host, 0); run.length > 0; run = run_at(s, host, run.index + run.length)) {
      most = run.length > most ? run.length : most;
    }
  }
  return static_cast<std::uint32_t>(most);
}

/// Whether the rank is the root or on its host, where blocks go straight.
TUTTI_HD constexpr bool at_home(const Shape& s, const Place& p) { return hosts::host_of(s, s.root) == p.host; }
TUTTI_HD constexpr bool leads(const Shape& s, const Place& p) { return !at_home(s, p) && p.index == 0; }
TUTTI_HD constexpr bool keeps(const Shape& s, const Place& p) { return leads(s, p) && p.size > 1; }
/// To whom a rank that neither leads nor is the root sends its block, or from whom it gets it; of a leader, the root.
TUTTI_HD constexpr std::int32_t above(const Shape& s, const Place& p) {
  return at_home(s, p) || leads(s, p) ? s.root : hosts::rank_at(s, p.host, 0);
}

TUTTI_HD constexpr std::uint32_t scratch_chunks(const Shape& s) {
  const Place p = hosts::place_of(s);
  return keeps(s, p) ? static_cast<std::uint32_t>(s.lanes * p.size) : 0;
}
TUTTI_HD constexpr Extent gather_extent(const Shape& s) {
  return Extent{static_cast<std::uint32_t>(s.lanes), 1, static_cast<std::uint32_t>(s.ranks), scratch_chunks(s),
                message_chunks(s)};
}
TUTTI_HD constexpr Extent scatter_extent(const Shape& s) {
  return Extent{static_cast<std::uint32_t>(s.lanes), static_cast<std::uint32_t>(s.ranks), 1, scratch_chunks(s),
                message_chunks(s)};
}

/// One step for the own block and each message, on both ways.
TUTTI_HD constexpr std::uint32_t steps(const Shape& s) {
  const Place p = hosts::place_of(s);
  if (keeps(s, p)) return static_cast<std::uint32_t>(p.size + runs_of(s, p.host));
  if (s.rank != s.root) return 1;
  std::int32_t messages = 0;
  for (std::int32_t host = 0; host < p.hosts; ++host) messages += host == p.host ? 0 : runs_of(s, host);
  return static_cast<std::uint32_t>(p.size + messages);
}

TUTTI_HD constexpr std::uint32_t chunk_of(const Shape& s, std::uint32_t lane, std::int32_t rank) {
  return static_cast<std::uint32_t>(rank * s.lanes) + lane;
}
TUTTI_HD constexpr std::uint32_t kept_at(const Place& p, std::uint32_t lane, std::int32_t index) {
  return lane * static_cast<std::uint32_t>(p.size) + static_cast<std::uint32_t>(index);
}

/// A message between the root and a leader.
struct Crossing {
  std::int32_t host = 0;
  Run run;
};
/// The root's i-th, from the next host on.
TUTTI_HD constexpr Crossing crossing(const Shape& s, const Place& p, std::int32_t i) {
  std::int32_t host = wrap(p.host + 1, p.hosts);
  for (; i >= runs_of(s, host); host = wrap(host + 1, p.hosts)) i -= runs_of(s, host);
  return Crossing{host, run_number(s, host, i)};
}
TUTTI_HD constexpr StepBuilder crossing_step(const Shape& s, std::uint32_t lane, const Crossing& c) {
  StepBuilder step(lane, chunk_of(s, lane, hosts::rank_at(s, c.host, c.run.index)));
  return step.span(c.run.length);
}

/// The own block; those of the host's other ranks; then what crosses the network.
TUTTI_HD constexpr Step gather_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const Place p = hosts::place_of(s);
  const bool root = s.rank == s.root;
  const std::uint32_t own = chunk_of(s, lane, s.rank);
  auto at = static_cast<std::int32_t>(i);
  StepBuilder step(lane, own);
  if (at == 0) {
    step.take(BufferId::kInput, lane);
    if (root) return step.store(BufferId::kOutput, own).step();
    return keeps(s, p) ? step.store(BufferId::kScratch, kept_at(p, lane, 0)).step() : step.send(above(s, p)).step();
  }
  if (--at < p.others()) {
    const std::int32_t from = hosts::other(s, p, at);
    const std::uint32_t chunk = chunk_of(s, lane, from);
    StepBuilder collects(lane, chunk);
    collects.recv(from);
    return root ? collects.store(BufferId::kOutput, chunk).step()
                : collects.store(BufferId::kScratch, kept_at(p, lane, hosts::index_of(s, from))).step();
  }
  at -= p.others();
  const Crossing c = root ? crossing(s, p, at) : Crossing{p.host, run_number(s, p.host, at)};
  StepBuilder crosses = crossing_step(s, lane, c);
  if (!root) return crosses.take(BufferId::kScratch, kept_at(p, lane, c.run.index)).send(s.root).step();
  return crosses.recv(hosts::rank_at(s, c.host, 0)).store(BufferId::kOutput, crosses.step().chunk).step();
}

/// What crosses the network; the blocks of the host's other ranks; the own one.
TUTTI_HD constexpr Step scatter_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const Place p = hosts::place_of(s);
  const bool root = s.rank == s.root;
  const std::uint32_t own = chunk_of(s, lane, s.rank);
  if (!root && !keeps(s, p)) return StepBuilder(lane, own).recv(above(s, p)).store(BufferId::kOutput, lane).step();
  const std::int32_t crossings = static_cast<std::int32_t>(steps(s)) - p.size;
  auto at = static_cast<std::int32_t>(i);
  if (at < crossings) {
    const Crossing c = root ? crossing(s, p, at) : Crossing{p.host, run_number(s, p.host, at)};
    StepBuilder crosses = crossing_step(s, lane, c);
    if (!root) return crosses.recv(s.root).store(BufferId::kScratch, kept_at(p, lane, c.run.index)).step();
    return crosses.take(BufferId::kInput, crosses.step().chunk).send(hosts::rank_at(s, c.host, 0)).step();
  }
  at -= crossings;
  const bool last = at == p.others();
  const std::int32_t to = last ? s.rank : hosts::other(s, p, at);
  const std::uint32_t chunk = chunk_of(s, lane, to);
  StepBuilder hands(lane, chunk);
  root ? hands.take(BufferId::kInput, chunk) : hands.take(BufferId::kScratch, kept_at(p, lane, hosts::index_of(s, to)));
  return last ? hands.store(BufferId::kOutput, lane).step() : hands.send(to).step();
}

inline constexpr Algorithm kGather{.name = "hierarchical_leaders",
                                   .collective = Collective::kGather,
                                   .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kEqual},
                                   .hierarchical = true,
                                   .max_lanes = 32,
                                   .steps = steps,
                                   .extent = gather_extent,
                                   .step = gather_step};
inline constexpr Algorithm kScatter{.name = "hierarchical_leaders",
                                    .collective = Collective::kScatter,
                                    .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kEqual},
                                    .hierarchical = true,
                                    .max_lanes = 32,
                                    .steps = steps,
                                    .extent = scatter_extent,
                                    .step = scatter_step};

}  // namespace tutti::hierarchical_gather
