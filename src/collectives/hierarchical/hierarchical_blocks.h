// Hierarchical reduce-scatter and all-gather, where ranks span hosts: a ring between hosts (ring.h) for the blocks that
// cross the network, and messages within hosts for the rest. Each host's link carries each block once in each
// direction, but those of one host: the least possible, as in a ring of hosts.
//
// The blocks of a host's ranks form rows, one block a driver (host_layout.h): row j holds those of the ranks of index
// j * drivers and up, and driver d of every host moves the row's d-th block. Row by row the drivers run a ring, round
// t = 0 .. H-1, in which the row of host h - t (reduce-scatter: h - t - 1) is at host h. Where hosts differ in size,
// rows are short or missing, on all hosts alike. All lanes run the same way: the ring fills a link's both directions
// anyway.
//
//   reduce-scatter   of each row: the contributions of the host's ranks go to the drivers, who add them up in rank
//                    order, add what comes from the host before, and send on. The last host is the blocks' own; blocks
//                    of ranks that are no drivers go on to these. The next row's contributions are collected before
//                    the driver waits for the network.
//   all-gather       each rank hands its block to the other ranks of its host; the drivers send the row on around the
//                    ring, and hand what arrives to the other ranks of their hosts.
#pragma once

#include "collectives/hierarchical/host_layout.h"
#include "collectives/ring.h"
#include "schedule/step_builder.h"

namespace tutti::hierarchical_blocks {

using hosts::Place;

/// One row at one host.
struct Item {
  std::int32_t row = 0;
  std::int32_t round = 0;
  std::int32_t owner = 0;   ///< the host whose ranks' blocks these are
  std::int32_t width = 0;   ///< blocks of the row; 0: there are no more items
  std::uint32_t place = 0;  ///< number among the rank's items
};

/// The item at (row, round) or the next one that exists; rounds of a row first.
TUTTI_HD constexpr Item find(const Shape& s, const Place& p, std::int32_t ahead, Item item) {
  for (; item.row * p.drivers < s.hosts->most; ++item.row, item.round = 0) {
    for (; item.round < p.hosts; ++item.round) {
      item.owner = wrap(p.host - item.round - ahead, p.hosts);
      const std::int32_t left = hosts::size_of(s, item.owner) - item.row * p.drivers;
      item.width = left < p.drivers ? left : p.drivers;
      if (left > 0) return item;
    }
  }
  item.width = 0;
  return item;
}
TUTTI_HD constexpr Item next(const Shape& s, const Place& p, std::int32_t ahead, Item item) {
  ++item.round;
  ++item.place;
  return find(s, p, ahead, item);
}

/// Whether this rank is the driver of one of the item's blocks.
TUTTI_HD constexpr bool drives(const Place& p, const Item& item) { return p.index < item.width; }
/// Whether one of the item's blocks is this rank's own.
TUTTI_HD constexpr bool owns(const Place& p, const Item& item) {
  return item.owner == p.host && p.index / p.drivers == item.row;
}
/// The item's d-th block on this lane, as a chunk.
TUTTI_HD constexpr std::uint32_t chunk_of(const Shape& s, const Place& p, std::uint32_t lane, const Item& item,
                                          std::int32_t d) {
  const std::int32_t rank = hosts::rank_at(s, item.owner, item.row * p.drivers + d);
  return static_cast<std::uint32_t>(rank) * static_cast<std::uint32_t>(s.lanes) + lane;
}
TUTTI_HD constexpr std::int32_t neighbour(const Shape& s, const Place& p, std::int32_t by) {
  return hosts::rank_at(s, wrap(p.host + by, p.hosts), p.index);
}

/// ---- reduce-scatter: the own host's blocks arrive last, so the ring starts one host ahead ----

inline constexpr std::int32_t kReduceAhead = 1;

/// A lane keeps two collected blocks.
TUTTI_HD constexpr Extent reduce_scatter_extent(const Shape& s) {
  const auto lanes = static_cast<std::uint32_t>(s.lanes);
  const bool keeps = !hosts::is_flat(s) && hosts::place_of(s).size > 1;
  return Extent{lanes, static_cast<std::uint32_t>(s.ranks), 1, keeps ? 2 * lanes : 0};
}

/// Contributions to the drivers, then what the own driver collects.
TUTTI_HD constexpr std::int32_t begin_steps(const Place& p, const Item& item) {
  if (!drives(p, item)) return item.width;
  return item.width - 1 + (item.round == 0 || p.size > 1 ? 1 : 0);
}
TUTTI_HD constexpr Step begin_step(const Shape& s, const Place& p, std::uint32_t lane, const Item& item,
                                   std::int32_t at) {
  const std::int32_t sends = item.width - (drives(p, item) ? 1 : 0);
  if (at < sends) {
    const std::int32_t driver = wrap(p.index + at + (drives(p, item) ? 1 : 0), item.width);
    const std::uint32_t chunk = chunk_of(s, p, lane, item, driver);
    return StepBuilder(lane, chunk).take(BufferId::kInput, chunk).send(hosts::rank_at(s, p.host, driver)).step();
  }
  const std::uint32_t chunk = chunk_of(s, p, lane, item, p.index);
  StepBuilder step(lane, chunk);
  p.size > 1 ? step.recv_each(PeerSet::kHost).reduce(BufferId::kInput, chunk) : step.take(BufferId::kInput, chunk);
  if (item.round == 0) return step.send(neighbour(s, p, 1)).step();
  return step.store(BufferId::kScratch, 2 * lane + item.place % 2).step();
}

/// What waits for others: the ring, and the own block where another drives it.
TUTTI_HD constexpr std::int32_t end_steps(const Place& p, const Item& item) {
  return (drives(p, item) && item.round > 0 ? 1 : 0) + (owns(p, item) && item.row > 0 ? 1 : 0);
}
TUTTI_HD constexpr Step end_step(const Shape& s, const Place& p, std::uint32_t lane, const Item& item,
                                 std::int32_t at) {
  if (at > 0 || !drives(p, item) || item.round == 0) {
    const std::int32_t driver = p.index % p.drivers;
    StepBuilder step(lane, chunk_of(s, p, lane, item, driver));
    return step.recv(hosts::rank_at(s, p.host, driver)).store(BufferId::kOutput, lane).step();
  }
  const std::uint32_t chunk = chunk_of(s, p, lane, item, p.index);
  StepBuilder step(lane, chunk);
  const bool left = ring::own_is_left(hosts::circle(s), 0, item.round);
  step.recv(neighbour(s, p, -1));
  p.size > 1 ? step.reduce(BufferId::kScratch, 2 * lane + item.place % 2, left)
             : step.reduce(BufferId::kInput, chunk, left);
  if (item.round < p.hosts - 1) return step.send(neighbour(s, p, 1)).step();
  step.complete();
  if (item.row == 0) return step.store(BufferId::kOutput, lane).step();
  return step.send(hosts::rank_at(s, p.host, item.row * p.drivers + p.index)).step();
}

/// An item ends when the next one has begun; before, if that one begins a row, whose first message goes to the network.
TUTTI_HD constexpr std::uint32_t reduce_scatter_steps(const Shape& s) {
  if (hosts::is_flat(s)) return ring::reduce_scatter_steps(s);
  const Place p = hosts::place_of(s);
  std::int32_t steps = 0;
  for (Item item = find(s, p, kReduceAhead, Item{}); item.width > 0; item = next(s, p, kReduceAhead, item)) {
    steps += begin_steps(p, item) + end_steps(p, item);
  }
  return static_cast<std::uint32_t>(steps);
}
TUTTI_HD constexpr Step reduce_scatter_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (hosts::is_flat(s)) return ring::reduce_scatter_step(s, lane, i);
  const Place p = hosts::place_of(s);
  auto at = static_cast<std::int32_t>(i);
  Item before;
  for (Item item = find(s, p, kReduceAhead, Item{});; item = next(s, p, kReduceAhead, item)) {
    const std::int32_t begin = item.width > 0 ? begin_steps(p, item) : 0;
    const std::int32_t end = before.width > 0 ? end_steps(p, before) : 0;
    const bool ends_first = item.width == 0 || item.round == 0;
    const std::int32_t begins_at = ends_first ? end : 0;
    const std::int32_t ends_at = ends_first ? 0 : begin;
    if (at >= begins_at && at < begins_at + begin) return begin_step(s, p, lane, item, at - begins_at);
    if (at < begin + end || item.width == 0) return end_step(s, p, lane, before, at - ends_at);
    at -= begin + end;
    before = item;
  }
}

/// ---- all-gather ----

inline constexpr std::int32_t kGatherAhead = 0;

TUTTI_HD constexpr Extent all_gather_extent(const Shape& s) {
  return Extent{static_cast<std::uint32_t>(s.lanes), 1, static_cast<std::uint32_t>(s.ranks), 0};
}

/// Whether the host's other ranks get one of the item's blocks from this rank: its own, or what it got by the ring.
TUTTI_HD constexpr bool hands_out(const Place& p, const Item& item) {
  return item.round == 0 ? owns(p, item) : drives(p, item);
}
/// Whether that block's way begins with a step that does not send within the host.
TUTTI_HD constexpr bool begins_apart(const Item& item) { return item.round > 0 || item.row == 0; }

TUTTI_HD constexpr std::int32_t item_steps(const Place& p, const Item& item) {
  if (!hands_out(p, item)) return item.width;
  return (begins_apart(item) ? 1 : 0) + p.others() + item.width - 1;
}

/// A block from the rank of the host that has it; the driver of a later row sends it on.
TUTTI_HD constexpr Step fetch(const Shape& s, const Place& p, std::uint32_t lane, const Item& item, std::int32_t d) {
  const std::uint32_t chunk = chunk_of(s, p, lane, item, d);
  StepBuilder step(lane, chunk);
  const std::int32_t from = item.round == 0 ? item.row * p.drivers + d : d;
  step.recv(hosts::rank_at(s, p.host, from)).store(BufferId::kOutput, chunk);
  const bool passes_on = item.round == 0 && d == p.index;
  return passes_on ? step.send(neighbour(s, p, 1)).step() : step.step();
}

/// The block that this rank hands out, on its way to the next host.
TUTTI_HD constexpr Step pass(const Shape& s, const Place& p, std::uint32_t lane, const Item& item) {
  const std::uint32_t chunk = chunk_of(s, p, lane, item, p.index);
  StepBuilder step(lane, chunk);
  item.round == 0 ? step.take(BufferId::kInput, lane) : step.recv(neighbour(s, p, -1));
  step.store(BufferId::kOutput, chunk);
  return item.round < p.hosts - 1 ? step.send(neighbour(s, p, 1)).step() : step.step();
}

TUTTI_HD constexpr Step item_step(const Shape& s, const Place& p, std::uint32_t lane, const Item& item,
                                  std::int32_t at) {
  // A later row's driver begins with its own column, which the ring waits for.
  if (!hands_out(p, item)) return fetch(s, p, lane, item, wrap(p.index + at, item.width));
  if (begins_apart(item) && at == 0) return pass(s, p, lane, item);
  at -= begins_apart(item) ? 1 : 0;
  const std::int32_t column = p.index % p.drivers;
  if (at >= p.others()) return fetch(s, p, lane, item, wrap(column - 1 - (at - p.others()), item.width));
  const std::uint32_t chunk = chunk_of(s, p, lane, item, column);
  const bool own = item.round == 0;
  StepBuilder step(lane, chunk);
  step.take(own ? BufferId::kInput : BufferId::kOutput, own ? lane : chunk);
  if (!begins_apart(item) && at == 0) step.store(BufferId::kOutput, chunk);
  return step.send(hosts::other(s, p, at)).step();
}

TUTTI_HD constexpr std::uint32_t all_gather_steps(const Shape& s) {
  if (hosts::is_flat(s)) return ring::all_gather_steps(s);
  const Place p = hosts::place_of(s);
  std::int32_t steps = 0;
  for (Item item = find(s, p, kGatherAhead, Item{}); item.width > 0; item = next(s, p, kGatherAhead, item)) {
    steps += item_steps(p, item);
  }
  return static_cast<std::uint32_t>(steps);
}
TUTTI_HD constexpr Step all_gather_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (hosts::is_flat(s)) return ring::all_gather_step(s, lane, i);
  const Place p = hosts::place_of(s);
  auto at = static_cast<std::int32_t>(i);
  Item item = find(s, p, kGatherAhead, Item{});
  for (; at >= item_steps(p, item); item = next(s, p, kGatherAhead, item)) at -= item_steps(p, item);
  return item_step(s, p, lane, item, at);
}

inline constexpr Algorithm kReduceScatter{.name = "hierarchical",
                                          .collective = Collective::kReduceScatter,
                                          .promises = {Reduces::kInOwnOrder, ByReference::kAlways, BlockSizes::kEqual},
                                          .hierarchical = true,
                                          .second_lane = SecondLane::kBetweenHosts,
                                          .max_lanes = ring::kMaxLanes,
                                          .steps = reduce_scatter_steps,
                                          .extent = reduce_scatter_extent,
                                          .step = reduce_scatter_step};
inline constexpr Algorithm kAllGather{.name = "hierarchical",
                                      .collective = Collective::kAllGather,
                                      .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kAny},
                                      .hierarchical = true,
                                      .second_lane = SecondLane::kBetweenHosts,
                                      .max_lanes = ring::kMaxLanes,
                                      .steps = all_gather_steps,
                                      .extent = all_gather_extent,
                                      .step = all_gather_step};

}  // namespace tutti::hierarchical_blocks
