// All-gather and reduce-scatter in few hops where ranks span H hosts: each driver of a host (host_layout.h) meets
// another host, all at once ("locality-aware Bruck": Bienz, Gautam, Kharel 2022; with a rank a host the all-gather is
// Bruck's).
//
//   all-gather       The ranks of each host give each other their blocks: a row. Before round r a host has the rows of
//                    b^r hosts, from its own up. Its k-th driver sends them to the host k + 1 times b^r below, and gets
//                    those of the host as far above; then the ranks of the host hand each other what came. These are
//                    log H / log(D+1) hops, rounded up, and S(n - L) bytes over a host's link, the least possible.
//   reduce-scatter   The same ways back, the longest first: the ranks of a host send each of its drivers what they have
//                    for the rows that it takes to their hosts; it adds that up, sends it, and adds what comes to its
//                    own contributions. At the end the ranks of each host send each other what they have of its row.
//
// Rows of hosts that follow one another are one span of blocks, around the end, if the ranks of each host do: where
// they are dealt out these are the programs of hierarchical_blocks.h. `tutti-plan all_gather --ranks 6 --hosts 3 --algo
// hierarchical_rounds --grid` (drawing.h says how to read it):
//
//   rank 0   0= >1    <1 2=    0x2 >4   <2 4x2=   4x2 >1   <1 8x2=
//   rank 1   2= >0    <0 0=    0x2 >3   <5 8x2=   8x2 >0   <0 4x2=
//   rank 2   4= >3    <3 6=    4x2 >0   <4 8x2=   8x2 >3   <3 0x2=
//   rank 3   6= >2    <2 4=    4x2 >5   <1 0x2=   0x2 >2   <2 8x2=
//   rank 4   8= >5    <5 10=   8x2 >2   <0 0x2=   0x2 >5   <5 4x2=
//   rank 5   10= >4   <4 8=    8x2 >1   <3 4x2=   4x2 >4   <4 0x2=
#pragma once

#include "collectives/hierarchical/hierarchical_blocks.h"
#include "collectives/hierarchical/host_arcs.h"

namespace tutti::hierarchical_rounds {

/// All-gather. The own block goes to its place and to the other ranks of the host; theirs come.
TUTTI_HD constexpr std::int32_t meet_steps(const Place& p) { return p.size > 1 ? 2 * p.others() : 1; }
TUTTI_HD constexpr Step meet(const Work& w, std::int32_t at) {
  const Place& p = w.x.p;
  if (at >= p.others() && p.size > 1) {
    const std::int32_t peer = w.other_left(at - p.others());
    return StepBuilder(w.lane, w.block(peer)).recv(peer).store(BufferId::kOutput, w.block(peer)).step();
  }
  StepBuilder step(w.lane, w.block(w.s.rank));
  step.take(BufferId::kInput, w.lane);
  if (at == 0) step.store(BufferId::kOutput, step.step().chunk);
  return p.size > 1 ? step.send(hosts::other(w.s, p, at)).step() : step.step();
}

/// What the host has goes to a host below; what one above has comes, and goes on to the host's ranks; theirs comes.
TUTTI_HD constexpr std::int32_t gather_steps(const Work& w, std::int32_t round) {
  return w.x.busy(round) + (w.x.is_busy(round) ? 1 + w.x.p.others() : 0);
}
TUTTI_HD constexpr Step gather(const Work& w, std::int32_t round, std::int32_t at) {
  const Place& p = w.x.p;
  const std::int32_t own = w.x.is_busy(round) ? 2 + p.others() : 0;
  const std::int32_t busy = w.x.busy(round);
  const std::int32_t driver = at < own ? p.index : wrap((own > 0 ? p.index : busy) - 1 - (at - own), busy);
  const std::int32_t distance = w.x.distance(round, driver);
  const bool sends = at < own && at == 0;
  StepBuilder step = w.on(sends ? p.host : w.host_at(distance), w.x.rows(round, driver));
  const std::uint32_t chunk = step.step().chunk;
  if (sends) return step.take(BufferId::kOutput, chunk).send(w.peer(-distance)).step();
  if (at > 1 && at < own) return step.take(BufferId::kOutput, chunk).send(hosts::other(w.s, p, at - 2)).step();
  return step.recv(at < own ? w.peer(distance) : w.near(driver)).store(BufferId::kOutput, chunk).step();
}

TUTTI_HD constexpr Extent all_gather_extent(const Shape& s) {
  if (!is_served(s)) return hierarchical_blocks::all_gather_extent(s);
  const auto lanes = static_cast<std::uint32_t>(s.lanes);
  return Extent{lanes, 1, static_cast<std::uint32_t>(s.ranks), 0, message_chunks(s)};
}
TUTTI_HD constexpr std::uint32_t all_gather_steps(const Shape& s) {
  if (!is_served(s)) return hierarchical_blocks::all_gather_steps(s);
  const Work w{s, rounds_of(s), 0};
  std::int32_t steps = meet_steps(w.x.p);
  for (std::int32_t round = 0; round < w.x.count; ++round) steps += gather_steps(w, round);
  return static_cast<std::uint32_t>(steps);
}
TUTTI_HD constexpr Step all_gather_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (!is_served(s)) return hierarchical_blocks::all_gather_step(s, lane, i);
  const Work w{s, rounds_of(s), lane};
  auto at = static_cast<std::int32_t>(i);
  if (at < meet_steps(w.x.p)) return meet(w, at);
  at -= meet_steps(w.x.p);
  for (std::int32_t round = 0;; at -= gather_steps(w, round++)) {
    if (at < gather_steps(w, round)) return gather(w, round, at);
  }
}

/// Reduce-scatter. Where a rank has its contributions to its host's row and those after it: in the input, until the
/// first round is over; then in scratch, the row of its host first. What it collects follows there.
TUTTI_HD constexpr std::uint32_t kept(const Work& w, std::int32_t row) {
  return 2 * w.lane * message_chunks(w.s) + static_cast<std::uint32_t>(ranks_of(w.s, w.x.p.host, row));
}
TUTTI_HD constexpr std::uint32_t collected(const Work& w) { return (2 * w.lane + 1) * message_chunks(w.s); }

/// The rounds go from the last one down.
TUTTI_HD constexpr bool is_first(const Work& w, std::int32_t round) { return round + 1 == w.x.count; }

/// Contributions to a row come from hosts at multiples of a round's distance below, as long as these are not around the
/// end and above the row's own. So there are rows that have one more, and the operands of a message must stand in one
/// order: where both kinds are in one, it is two.
struct Piece {
  std::int32_t row, rows;
};
TUTTI_HD constexpr std::int32_t pieces(const Work& w, std::int32_t round) {
  return !is_first(w, round) && w.x.p.hosts % w.x.rows_before(round) > 0 ? 2 : 1;
}
/// It is one of the rows that the k-th driver sends.
TUTTI_HD constexpr Piece piece_at(const Work& w, std::int32_t round, std::int32_t k, std::int32_t q) {
  if (pieces(w, round) == 1) return Piece{0, w.x.rows(round, k)};
  const std::int32_t turn = w.x.p.hosts % w.x.rows_before(round);
  return q == 0 ? Piece{0, turn} : Piece{turn, w.x.rows(round, k) - turn};
}

/// The lowest rank of those whose contributions to a row the host so far below has after the rounds down to this one; n
/// if it is around the end, where all are higher than this host's.
TUTTI_HD constexpr std::int32_t lowest_of_host(const Work& w, std::int32_t round, std::int32_t below,
                                               std::int32_t row) {
  const std::int32_t host = w.x.p.host - below;
  if (host < 0) return w.s.ranks;
  const std::int32_t step = round < w.x.count ? w.x.rows_before(round) : w.x.p.hosts;
  const std::int32_t all = (w.x.p.hosts - 1 - row) / step;
  return first_rank(w.s, all < host / step ? host - all * step : host % step);
}
/// This is the same of a rank of this host, which has its own contributions and what the rounds brought it.
TUTTI_HD constexpr std::int32_t lowest_of_rank(const Work& w, std::int32_t round, std::int32_t index,
                                               std::int32_t row) {
  std::int32_t lowest = w.near(index);
  for (std::int32_t r = round; r < w.x.count; ++r) {
    if (row >= w.x.rows(r, index)) continue;
    const std::int32_t arrived = lowest_of_host(w, r + 1, w.x.distance(r, index), row + w.x.distance(r, index));
    lowest = arrived < lowest ? arrived : lowest;
  }
  return lowest;
}
/// Whether what this rank has added up of its host's first `k` other ranks and its own stands left of the next one's.
TUTTI_HD constexpr bool own_is_left(const Work& w, std::int32_t round, std::int32_t k, std::int32_t row) {
  std::int32_t lowest = lowest_of_rank(w, round, w.x.p.index, row);
  for (std::int32_t i = 0; i < k; ++i) {
    const std::int32_t other = lowest_of_rank(w, round, w.index_left(i), row);
    lowest = other < lowest ? other : lowest;
  }
  return lowest < lowest_of_rank(w, round, w.index_left(k), row);
}

/// Contributions to rows from this one on, before the round.
TUTTI_HD constexpr StepBuilder& take(const Work& w, StepBuilder& step, std::int32_t round, std::int32_t row) {
  if (is_first(w, round)) return step.take(BufferId::kInput, step.step().chunk);
  return step.take(BufferId::kScratch, kept(w, row));
}

/// To a driver what this rank has for the rows that it sends on.
TUTTI_HD constexpr Step share(const Work& w, std::int32_t round, std::int32_t driver, std::int32_t q) {
  const Piece piece = piece_at(w, round, driver, q);
  const std::int32_t row = w.x.distance(round, driver) + piece.row;
  StepBuilder step = w.on(w.host_at(row), piece.rows);
  return take(w, step, round, row).send(w.near(driver)).step();
}
/// What the k-th other rank of the host has of them is added; then all goes to the next host.
TUTTI_HD constexpr Step collect(const Work& w, std::int32_t round, std::int32_t q, std::int32_t k) {
  const Place& p = w.x.p;
  const Piece piece = piece_at(w, round, p.index, q);
  const std::int32_t row = w.x.distance(round, p.index) + piece.row;
  StepBuilder step = w.on(w.host_at(row), piece.rows);
  if (p.size > 1)
    step.recv(w.other_left(k)).reduce(BufferId::kScratch, collected(w), own_is_left(w, round + 1, k, row));
  if (k == 0) take(w, step, round, row);
  if (k + 1 < p.others()) return step.store(BufferId::kScratch, collected(w)).step();
  return step.send(w.peer(w.x.distance(round, p.index))).step();
}
/// What a host below collected is added to what this rank has. With one rank a host, at last that is all.
TUTTI_HD constexpr Step arrive(const Work& w, std::int32_t round, std::int32_t q) {
  const Place& p = w.x.p;
  const Piece piece = piece_at(w, round, p.index, q);
  const std::int32_t below = w.x.distance(round, p.index);
  const std::int32_t lowest = lowest_of_host(w, round + 1, below, piece.row + below);
  StepBuilder step = w.on(w.host_at(piece.row), piece.rows);
  step.recv(w.peer(-below)).reduce(BufferId::kInput, 0, lowest_of_rank(w, round + 1, p.index, piece.row) < lowest);
  take(w, step, round, piece.row);
  if (round == 0 && p.size == 1) return step.complete().store(BufferId::kOutput, w.lane).step();
  return step.store(BufferId::kScratch, kept(w, piece.row)).step();
}

/// Steps of a round, kind by kind.
struct Steps {
  std::int32_t shares, collects, arrivals, keeps;
};
TUTTI_HD constexpr Steps steps_of(const Work& w, std::int32_t round) {
  const std::int32_t each = pieces(w, round);
  const std::int32_t own = w.x.is_busy(round) ? each : 0;
  const bool keeps = is_first(w, round) && w.x.rows(round, w.x.p.index) < w.x.rows_before(round);
  return Steps{each * w.x.busy(round) - own, own * (w.x.p.size > 1 ? w.x.p.others() : 1), own, keeps ? 1 : 0};
}
TUTTI_HD constexpr std::int32_t reduce_steps(const Work& w, std::int32_t round) {
  const Steps steps = steps_of(w, round);
  return steps.shares + steps.collects + steps.arrivals + steps.keeps;
}
TUTTI_HD constexpr Step reduce(const Work& w, std::int32_t round, std::int32_t at) {
  const Steps steps = steps_of(w, round);
  const std::int32_t each = pieces(w, round);
  if (at < steps.shares) {
    const std::int32_t driver = wrap(at / each + (steps.arrivals > 0 ? w.x.p.index + 1 : 0), w.x.busy(round));
    return share(w, round, driver, at % each);
  }
  at -= steps.shares;
  if (at < steps.collects) return collect(w, round, at * each / steps.collects, at % (steps.collects / each));
  at -= steps.collects;
  if (at < steps.arrivals) return arrive(w, round, at);
  // What the first round brings nothing for is kept as it is.
  const std::int32_t row = w.x.rows(round, w.x.p.index);
  StepBuilder step = w.on(w.host_at(row), w.x.rows_before(round) - row);
  return take(w, step, round, row).store(BufferId::kScratch, kept(w, row)).step();
}

/// After the rounds: the ranks of a host send each other what they have for it.
TUTTI_HD constexpr Step part(const Work& w, std::int32_t at) {
  const Place& p = w.x.p;
  if (at < p.others()) {
    const std::int32_t peer = hosts::other(w.s, p, at);
    const std::uint32_t chunk = kept(w, 0) + static_cast<std::uint32_t>(wrap(p.index + 1 + at, p.size));
    return StepBuilder(w.lane, w.block(peer)).take(BufferId::kScratch, chunk).send(peer).step();
  }
  at -= p.others();
  StepBuilder step(w.lane, w.block(w.s.rank));
  step.recv(w.other_left(at)).reduce(BufferId::kOutput, w.lane, own_is_left(w, 0, at, 0));
  if (at == 0) step.take(BufferId::kScratch, kept(w, 0) + static_cast<std::uint32_t>(p.index));
  if (at + 1 == p.others()) step.complete();
  return step.store(BufferId::kOutput, w.lane).step();
}

TUTTI_HD constexpr Extent reduce_scatter_extent(const Shape& s) {
  if (!is_served(s)) return hierarchical_blocks::reduce_scatter_extent(s);
  const auto lanes = static_cast<std::uint32_t>(s.lanes);
  const std::uint32_t chunks = message_chunks(s);
  return Extent{lanes, static_cast<std::uint32_t>(s.ranks), 1, s.ranks == 1 ? 0 : 2 * lanes * chunks, chunks};
}
TUTTI_HD constexpr std::uint32_t reduce_scatter_steps(const Shape& s) {
  if (s.ranks == 1) return 1;
  if (!is_served(s)) return hierarchical_blocks::reduce_scatter_steps(s);
  const Work w{s, rounds_of(s), 0};
  std::int32_t steps = 2 * w.x.p.others();
  for (std::int32_t round = 0; round < w.x.count; ++round) steps += reduce_steps(w, round);
  return static_cast<std::uint32_t>(steps);
}
TUTTI_HD constexpr Step reduce_scatter_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  if (!is_served(s)) return hierarchical_blocks::reduce_scatter_step(s, lane, i);
  const Work w{s, rounds_of(s), lane};
  auto at = static_cast<std::int32_t>(i);
  for (std::int32_t round = w.x.count - 1; round >= 0; at -= reduce_steps(w, round--)) {
    if (at < reduce_steps(w, round)) return reduce(w, round, at);
  }
  return part(w, at);
}

constexpr Algorithm algorithm(Collective collective) {
  const bool gathers = collective == Collective::kAllGather;
  return {.name = "hierarchical_rounds",
          .collective = collective,
          .promises = {gathers ? Reduces::kNothing : Reduces::kInOwnOrder, ByReference::kAlways, BlockSizes::kEqual},
          .hierarchical = true,
          .serves_alone = !gathers,
          .second_lane = SecondLane::kBetweenHosts,
          .max_lanes = 32,
          .steps = gathers ? all_gather_steps : reduce_scatter_steps,
          .extent = gathers ? all_gather_extent : reduce_scatter_extent,
          .step = gathers ? all_gather_step : reduce_scatter_step};
}
inline constexpr Algorithm kAllGather = algorithm(Collective::kAllGather);
inline constexpr Algorithm kReduceScatter = algorithm(Collective::kReduceScatter);

}  // namespace tutti::hierarchical_rounds
