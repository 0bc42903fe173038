// All-to-all with few messages where ranks span H hosts of L ranks. First the ranks of each host exchange what they
// have for other hosts, so that a rank holds what all L have for the ranks with its own place on every host; then it
// deals with these alone. A message between hosts so has the blocks of L ranks, and a rank sends H-1 of them instead of
// n-L (Traeff and Hunold 2020: "full-lane"; Kinkead et al. 2025 compare it with others that know of hosts). Each byte
// moves once more, within the host.
//
//   hierarchical     between hosts directly: H-1 messages a rank in one hop; S(n-L) bytes a rank, the least possible.
//                    Some hosts at a time: the network is busy with these while the next ones' blocks are exchanged
//   hierarchical_2   in two rounds, Bruck's algorithm (bruck.h) with digits to the base sqrt H: what is for the host t
//                    above travels by t's low digit first, then by its high one, with all else that takes that way;
//                    about 2 sqrt H messages a rank, 2 S(n-L) bytes
//   hierarchical_3   in three rounds: about 3 cbrt H messages, 3 S(n-L) bytes
//
// Blocks are kept in scratch, host by host in the order of the distance t, with a row for each host. A row has a power
// of two places, so that the ranks' places are at equal distances that spans can name (step.h); where rounds send rows
// together and L is no power of two, the places beyond the ranks are filled with copies, which travel too. A message
// replaces in scratch what was sent to the same peer, or by the same digit. Nothing is sent from input or output, so
// these may be one.
//
// What has been said is of the drivers (host_layout.h): where hosts differ in size, each rank beyond them exchanges its
// blocks with all others directly, through one more chunk of scratch.
//
// `tutti-plan all_to_all --ranks 4 --hosts 2 --algo hierarchical --lanes 1 --grid` (drawing.h says how to read it):
//
//   rank 0   0x2=    0x2=    1x2 >1    <1 4x2=    2x2 >2    <2 8x2=    0x2=    0x2=
//   rank 1   5x2=    5x2=    4x2 >0    <0 1x2=    7x2 >3    <3 13x2=   5x2=    5x2=
//   rank 2   10x2=   10x2=   11x2 >3   <3 14x2=   8x2 >0    <0 2x2=    10x2=   10x2=
//   rank 3   15x2=   15x2=   14x2 >2   <2 11x2=   13x2 >1   <1 7x2=    15x2=   15x2=
//
// `tutti-plan all_to_all --ranks 4 --hosts 4 --algo hierarchical_2 --grid`, a rank a host:
//
//   rank 0   0=    0=    0=    0=    1x2 >1    <3 12x2=   2x2 >2    <2 8x2=    0=    0=    0=    0=
//   rank 1   5=    5=    5=    5=    6x2 >2    <0 1x2=    7x2 >3    <3 13x2=   5=    5=    5=    5=
//   rank 2   10=   10=   10=   10=   11x2 >3   <1 6x2=    8x2 >0    <0 2x2=    10=   10=   10=   10=
//   rank 3   15=   15=   15=   15=   12x2 >0   <2 11x2=   13x2 >1   <1 7x2=    15=   15=   15=   15=
#pragma once

#include "collectives/hierarchical/all_to_all_rows.h"

namespace tutti::hierarchical_all_to_all {

/// ---- a driver's blocks into scratch, and out of it ----

TUTTI_HD constexpr bool whole_rows(const Shape& s) { return hosts::is_flat(s) || s.hosts->follow_one_another; }

/// Steps of a row: one where the ranks follow one another, and one for the places to fill; else one a place.
TUTTI_HD constexpr std::int32_t keep_steps(const Work& w) {
  if (whole_rows(w.s)) return w.x.fills() ? 2 : 1;
  return w.x.fills() ? w.x.row_size() : w.x.p.drivers;
}
TUTTI_HD constexpr Step keep(const Work& w, std::int32_t row, std::int32_t at) {
  const Place& p = w.x.p;
  const bool whole = whole_rows(w.s);
  const std::int32_t place = whole ? at * p.drivers : at;
  const std::int32_t rank = hosts::rank_at(w.s, wrap(p.host + w.x.distance(row), p.hosts), place % p.drivers);
  StepBuilder step = w.from_to(w.s.rank, w.s.rank);
  if (whole) step.span(at == 0 ? p.drivers : w.x.row_size() - p.drivers);
  return step.take(BufferId::kInput, w.block(rank)).store(BufferId::kScratch, w.kept(row, place)).step();
}

TUTTI_HD constexpr std::int32_t hand_out_steps(const Work& w) { return whole_rows(w.s) ? 1 : w.x.p.drivers; }
/// What is in the row is from the host as far below.
TUTTI_HD constexpr Step hand_out(const Work& w, std::int32_t row, std::int32_t place) {
  const Place& p = w.x.p;
  StepBuilder step = w.from_to(w.s.rank, w.s.rank);
  if (whole_rows(w.s)) step.span(p.drivers);
  const std::int32_t rank = hosts::rank_at(w.s, wrap(p.host - w.x.distance(row), p.hosts), place);
  return step.take(BufferId::kScratch, w.kept(row, place)).store(BufferId::kOutput, w.block(rank)).step();
}

/// ---- within the host ----

/// The group's rows are kept; then to each other driver the blocks for the ranks with its place, and its blocks for
/// those with this rank's.
TUTTI_HD constexpr std::int32_t collect_steps(const Work& w, const Group& group) {
  return group.rows * keep_steps(w) + 2 * (w.x.p.drivers - 1);
}
TUTTI_HD constexpr Step collect(const Work& w, const Group& group, std::int32_t at) {
  const std::int32_t keeps = keep_steps(w);
  if (at < group.rows * keeps) return keep(w, group.first + at / keeps, at % keeps);
  at -= group.rows * keeps;
  const Place& p = w.x.p;
  const std::int32_t others = p.drivers - 1;
  const bool sends = at < others;
  const std::int32_t place = sends ? hosts::driver_right(p, at) : hosts::driver_left(p, at - others);
  const std::int32_t peer = hosts::rank_at(w.s, p.host, place);
  StepBuilder step = sends ? w.from_to(w.s.rank, peer) : w.from_to(peer, w.s.rank);
  return w.exchange(step.span(group.rows, w.x.log_row), peer, sends, w.kept(group.first, place));
}

/// ---- between hosts ----

/// The message that begins with this row.
TUTTI_HD constexpr Step cross(const Work& w, std::int32_t row, const Round& round, std::int32_t rows, bool sends) {
  const Place& p = w.x.p;
  const std::int32_t distance = w.x.distance(row);
  const std::int32_t peer = hosts::rank_at(w.s, wrap(sends ? p.host + distance : p.host - distance, p.hosts), p.index);
  StepBuilder step = sends ? w.from_to(w.s.rank, peer) : w.from_to(peer, w.s.rank);
  const std::int32_t run = w.x.log_row + round.shift;
  step.span_in_runs(chunks_of_rows(w.x, rows), run, run + round.bits);
  return w.exchange(step, peer, sends, w.kept(row, 0));
}

TUTTI_HD constexpr std::int32_t messages_between(const Exchange& x) {
  std::int32_t messages = 0;
  for (std::int32_t r = 0; r < x.rounds; ++r) messages += values(x, round_at(x, r));
  return messages;
}

/// Directly: a group's rows are collected and sent; then the rows of the group before come and are handed out.
TUTTI_HD constexpr Step direct_step(const Work& w, std::int32_t at) {
  const Round all = round_at(w.x, 0);
  const std::int32_t hands = hand_out_steps(w);
  Group before{0, 0};
  for (std::int32_t number = 0;; ++number) {
    const Group group = group_at(w.x, number);
    const std::int32_t collects = group.rows > 0 ? collect_steps(w, group) : 0;
    if (at < collects) return collect(w, group, at);
    at -= collects;
    // The first row is for the own host.
    const std::int32_t own = number == 0 ? 1 : 0;
    if (at < group.rows - own) return cross(w, group.first + own + at, all, 1, true);
    at -= group.rows - own;
    const std::int32_t own_before = number == 1 ? 1 : 0;
    if (at < before.rows - own_before) return cross(w, before.first + own_before + at, all, 1, false);
    at -= before.rows - own_before;
    if (at < before.rows * hands) return hand_out(w, before.first + at / hands, at % hands);
    at -= before.rows * hands;
    before = group;
  }
}

/// In rounds: all rows are collected; each round sends its rows and gets others; all are handed out.
TUTTI_HD constexpr Step rounds_step(const Work& w, std::int32_t at) {
  for (std::int32_t number = 0; number < groups_of(w.x); ++number) {
    const Group group = group_at(w.x, number);
    if (at < collect_steps(w, group)) return collect(w, group, at);
    at -= collect_steps(w, group);
  }
  for (std::int32_t r = 0; r < w.x.rounds; ++r) {
    const Round round = round_at(w.x, r);
    const std::int32_t messages = values(w.x, round);
    if (at < 2 * messages) {
      const std::int32_t value = 1 + at % messages;
      return cross(w, value << round.shift, round, rows_of(w.x, round, value), at < messages);
    }
    at -= 2 * messages;
  }
  return hand_out(w, at / hand_out_steps(w), at % hand_out_steps(w));
}

/// ---- blocks of ranks beyond the drivers, and of drivers for them ----

TUTTI_HD constexpr std::int32_t peers_apart(const Work& w) {
  return w.x.p.drives() ? ranks_beyond(w.s, w.x.p) : w.s.ranks - 1;
}
TUTTI_HD constexpr std::int32_t peer_apart(const Work& w, std::int32_t k) {
  return w.x.p.drives() ? rank_beyond(w.s, w.x.p, k) : all_pairs::peer_at(w.s, static_cast<std::uint32_t>(k));
}
/// Each block by way of scratch.
TUTTI_HD constexpr Step send_apart(const Work& w, std::int32_t at) {
  const std::int32_t peer = peer_apart(w, at / 2);
  const std::uint32_t chunk = (w.lane + 1) * scratch_chunks(w.s, w.x) - 1;
  StepBuilder step = w.from_to(w.s.rank, peer);
  return at % 2 == 0 ? step.take(BufferId::kInput, w.block(peer)).store(BufferId::kScratch, chunk).step()
                     : step.take(BufferId::kScratch, chunk).send(peer).step();
}
TUTTI_HD constexpr Step receive_apart(const Work& w, std::int32_t k) {
  const std::int32_t peer = peer_apart(w, k);
  return w.from_to(peer, w.s.rank).recv(peer).store(BufferId::kOutput, w.block(peer)).step();
}

template <std::int32_t kRounds>
TUTTI_HD constexpr Extent extent(const Shape& s) {
  const Exchange x = exchange_of(s, kRounds);
  const auto ranks = static_cast<std::uint32_t>(s.ranks);
  const auto lanes = static_cast<std::uint32_t>(s.lanes);
  return Extent{lanes, ranks, ranks, lanes * scratch_chunks(s, x), static_cast<std::uint32_t>(message_chunks(x))};
}

TUTTI_HD constexpr std::int32_t driver_steps(const Work& w) {
  const std::int32_t rows = w.x.p.hosts * (keep_steps(w) + hand_out_steps(w));
  return rows + groups_of(w.x) * 2 * (w.x.p.drivers - 1) + 2 * messages_between(w.x);
}
template <std::int32_t kRounds>
TUTTI_HD constexpr std::uint32_t steps(const Shape& s) {
  if (s.ranks == 1) return 1;
  const Work w{s, exchange_of(s, kRounds), 0};
  return static_cast<std::uint32_t>(3 * peers_apart(w) + (w.x.p.drives() ? driver_steps(w) : 1));
}

/// A rank beyond the drivers only exchanges blocks apart. A driver does so around the rest: in place, what comes so
/// takes the place of what it has kept by then.
template <std::int32_t kRounds>
TUTTI_HD constexpr Step step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const Work w{s, exchange_of(s, kRounds), lane};
  const std::int32_t apart = peers_apart(w);
  auto at = static_cast<std::int32_t>(i);
  if (at < 2 * apart) return send_apart(w, at);
  at -= 2 * apart;
  const std::int32_t driven = w.x.p.drives() ? driver_steps(w) : 0;
  if (at < driven) return w.x.is_direct() ? direct_step(w, at) : rounds_step(w, at);
  at -= driven;
  return at < apart ? receive_apart(w, apart - 1 - at) : all_pairs::own_block(s, lane).step();
}

template <std::int32_t kRounds>
constexpr Algorithm algorithm(const char* name) {
  return {.name = name,
          .collective = Collective::kAllToAll,
          .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kEqual},
          .hierarchical = true,
          .serves_alone = true,
          .second_lane = SecondLane::kBetweenHosts,
          .max_lanes = 32,
          .steps = steps<kRounds>,
          .extent = extent<kRounds>,
          .step = step<kRounds>};
}
inline constexpr Algorithm kAllToAll = algorithm<1>("hierarchical");
inline constexpr Algorithm kAllToAll2 = algorithm<2>("hierarchical_2");
inline constexpr Algorithm kAllToAll3 = algorithm<3>("hierarchical_3");

}  // namespace tutti::hierarchical_all_to_all
