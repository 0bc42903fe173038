// All-to-all with few messages where ranks span H hosts of L ranks. First the ranks of each host exchange what they
// have for other hosts, so that a rank holds what all L have for the ranks with its own place on every host; then it
// deals with these alone. A message between hosts so has the blocks of L ranks, and a rank sends H-1 of them instead of
// n-L (Traeff and Hunold 2020: "full-lane"; Kinkead et al. 2025 compare it with others that know of hosts). Each byte
// moves once more, within the host.
//
//   hierarchical     between hosts directly: H-1 messages a rank in one hop; S(n-L) bytes a rank, the least possible
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
// `tutti-plan all_to_all --ranks 4 --hosts 2 --algo hierarchical --grid` (drawing.h says how to read it):
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

#include "collectives/all_pairs.h"
#include "collectives/host_layout.h"
#include "schedule/step_builder.h"

namespace tutti::hierarchical_all_to_all {

using hosts::Place;

/// A message within a host may have blocks for so many hosts, also where those between hosts have fewer chunks.
inline constexpr std::int32_t kHostsTogether = 32;

/// What the steps of one rank depend on.
struct Exchange {
  Place p;
  std::int32_t log_row;  ///< a row has 2^log_row places
  std::int32_t digits;   ///< binary ones of a distance between hosts
  std::int32_t rounds;

  TUTTI_HD constexpr std::int32_t row() const { return 1 << log_row; }
  TUTTI_HD constexpr bool fills() const { return rounds > 1 && row() > p.drivers; }
};
TUTTI_HD constexpr Exchange exchange_of(const Shape& s, std::int32_t wanted) {
  const Place p = hosts::place_of(s);
  const std::int32_t digits = ceil_log2(p.hosts);
  return Exchange{p, ceil_log2(p.drivers), digits, wanted < digits ? wanted : digits};
}

/// A round sends by the binary digits shift .. shift + bits - 1 of the distance, all of them together one digit.
struct Round {
  std::int32_t shift;
  std::int32_t bits;
};
TUTTI_HD constexpr Round round_at(const Exchange& x, std::int32_t r) {
  const std::int32_t each = x.digits / x.rounds;
  const std::int32_t more = x.digits % x.rounds;
  return Round{r * each + (r < more ? r : more), each + (r < more ? 1 : 0)};
}
/// Values of the digit but 0: messages of the round.
TUTTI_HD constexpr std::int32_t values(const Exchange& x, const Round& round) {
  const std::int32_t all = (1 << round.bits) - 1;
  const std::int32_t highest = (x.p.hosts - 1) >> round.shift;
  return all < highest ? all : highest;
}
/// Hosts at a distance with this digit.
TUTTI_HD constexpr std::int32_t rows_of(const Exchange& x, const Round& round, std::int32_t value) {
  const std::int32_t run = 1 << round.shift;
  const std::int32_t rest = x.p.hosts % (run << round.bits) - value * run;
  return x.p.hosts / (run << round.bits) * run + (rest < 0 ? 0 : rest < run ? rest : run);
}
/// From the first row's first place to the last row's last rank.
TUTTI_HD constexpr std::int32_t chunks_of_rows(const Exchange& x, std::int32_t rows) {
  return (rows - 1) * x.row() + x.p.drivers;
}
TUTTI_HD constexpr std::int32_t message_chunks(const Exchange& x) {
  std::int32_t most = x.p.hosts < kHostsTogether ? x.p.hosts : kHostsTogether;
  for (std::int32_t r = 0; r < x.rounds; ++r) {
    const std::int32_t chunks = chunks_of_rows(x, rows_of(x, round_at(x, r), 1));
    most = chunks > most ? chunks : most;
  }
  return most;
}

TUTTI_HD constexpr std::int32_t ranks_beyond(const Shape& s, const Place& p) { return s.ranks - p.hosts * p.drivers; }
/// The k-th rank beyond the drivers, from the next host on.
TUTTI_HD constexpr std::int32_t rank_beyond(const Shape& s, const Place& p, std::int32_t k) {
  std::int32_t host = wrap(p.host + 1, p.hosts);
  for (; k >= hosts::size_of(s, host) - p.drivers; host = wrap(host + 1, p.hosts)) {
    k -= hosts::size_of(s, host) - p.drivers;
  }
  return hosts::rank_at(s, host, p.drivers + k);
}

TUTTI_HD constexpr std::uint32_t scratch_chunks(const Shape& s, const Exchange& x) {
  if (s.ranks == 1) return 0;
  return static_cast<std::uint32_t>((x.p.drives() ? x.p.hosts * x.row() : 0) + (ranks_beyond(s, x.p) > 0 ? 1 : 0));
}

/// One lane of one rank.
struct Work {
  const Shape& s;
  Exchange x;
  std::uint32_t lane;

  /// The place of the row at distance t.
  TUTTI_HD constexpr std::uint32_t kept(std::int32_t t, std::int32_t place) const {
    return lane * scratch_chunks(s, x) + static_cast<std::uint32_t>(t * x.row() + place);
  }
  TUTTI_HD constexpr std::uint32_t block(std::int32_t rank) const {
    return static_cast<std::uint32_t>(rank * s.lanes) + lane;
  }
  TUTTI_HD constexpr StepBuilder from_to(std::int32_t from, std::int32_t to) const {
    return StepBuilder(lane, all_pairs::pair_chunk(s, from, to, lane));
  }
};

/// ---- a driver's blocks into scratch, and out of it ----

TUTTI_HD constexpr bool whole_rows(const Shape& s) { return hosts::is_flat(s) || s.hosts->follow_one_another; }

/// Steps of a row: one where the ranks follow one another, and one for the places to fill; else one a place.
TUTTI_HD constexpr std::int32_t keep_steps(const Shape& s, const Exchange& x) {
  if (whole_rows(s)) return x.fills() ? 2 : 1;
  return x.fills() ? x.row() : x.p.drivers;
}
TUTTI_HD constexpr Step keep(const Work& w, std::int32_t t, std::int32_t at) {
  const Place& p = w.x.p;
  const bool whole = whole_rows(w.s);
  const std::int32_t place = whole ? at * p.drivers : at;
  const std::int32_t rank = hosts::rank_at(w.s, wrap(p.host + t, p.hosts), place % p.drivers);
  StepBuilder step = w.from_to(w.s.rank, w.s.rank);
  if (whole) step.span(at == 0 ? p.drivers : w.x.row() - p.drivers);
  return step.take(BufferId::kInput, w.block(rank)).store(BufferId::kScratch, w.kept(t, place)).step();
}

TUTTI_HD constexpr std::int32_t hand_out_steps(const Shape& s, const Exchange& x) {
  return whole_rows(s) ? 1 : x.p.drivers;
}
/// What is in the row is from the host t below.
TUTTI_HD constexpr Step hand_out(const Work& w, std::int32_t t, std::int32_t place) {
  const Place& p = w.x.p;
  StepBuilder step = w.from_to(w.s.rank, w.s.rank);
  if (whole_rows(w.s)) step.span(p.drivers);
  const std::int32_t rank = hosts::rank_at(w.s, wrap(p.host - t, p.hosts), place);
  return step.take(BufferId::kScratch, w.kept(t, place)).store(BufferId::kOutput, w.block(rank)).step();
}

/// ---- within the host ----

TUTTI_HD constexpr std::int32_t within_messages(const Exchange& x) {
  const std::int32_t together = message_chunks(x);
  return (x.p.hosts + together - 1) / together;
}
TUTTI_HD constexpr std::int32_t within_steps(const Exchange& x) { return within_messages(x) * 2 * (x.p.drivers - 1); }
/// For so many hosts at a time: to each other driver the blocks for the ranks with its place, then its blocks for this
/// rank's place.
TUTTI_HD constexpr Step within_step(const Work& w, std::int32_t at) {
  const Place& p = w.x.p;
  const std::int32_t others = p.drivers - 1;
  const std::int32_t together = message_chunks(w.x);
  const std::int32_t t = at / (2 * others) * together;
  at %= 2 * others;
  const bool sends = at < others;
  const std::int32_t place = sends ? hosts::driver_right(p, at) : hosts::driver_left(p, at - others);
  const std::int32_t peer = hosts::rank_at(w.s, p.host, place);
  StepBuilder step = sends ? w.from_to(w.s.rank, peer) : w.from_to(peer, w.s.rank);
  step.span(p.hosts - t < together ? p.hosts - t : together, w.x.log_row);
  return sends ? step.take(BufferId::kScratch, w.kept(t, place)).send(peer).step()
               : step.recv(peer).store(BufferId::kScratch, w.kept(t, place)).step();
}

/// ---- between hosts ----

TUTTI_HD constexpr std::int32_t between_steps(const Exchange& x) {
  std::int32_t steps = 0;
  for (std::int32_t r = 0; r < x.rounds; ++r) steps += 2 * values(x, round_at(x, r));
  return steps;
}
/// A round's messages to the hosts above, then those of the hosts below.
TUTTI_HD constexpr Step between_step(const Work& w, std::int32_t at) {
  std::int32_t r = 0;
  for (; at >= 2 * values(w.x, round_at(w.x, r)); ++r) at -= 2 * values(w.x, round_at(w.x, r));
  const Place& p = w.x.p;
  const Round round = round_at(w.x, r);
  const bool sends = at < values(w.x, round);
  const std::int32_t value = 1 + (sends ? at : at - values(w.x, round));
  const std::int32_t t = value << round.shift;
  const std::int32_t peer = hosts::rank_at(w.s, wrap(sends ? p.host + t : p.host - t, p.hosts), p.index);
  StepBuilder step = sends ? w.from_to(w.s.rank, peer) : w.from_to(peer, w.s.rank);
  step.span_in_runs(chunks_of_rows(w.x, rows_of(w.x, round, value)), w.x.log_row + round.shift,
                    w.x.log_row + round.shift + round.bits);
  return sends ? step.take(BufferId::kScratch, w.kept(t, 0)).send(peer).step()
               : step.recv(peer).store(BufferId::kScratch, w.kept(t, 0)).step();
}

/// ---- blocks of ranks beyond the drivers, and of drivers for them ----

TUTTI_HD constexpr std::int32_t direct_peers(const Shape& s, const Exchange& x) {
  return x.p.drives() ? ranks_beyond(s, x.p) : s.ranks - 1;
}
TUTTI_HD constexpr std::int32_t direct_peer(const Work& w, std::int32_t k) {
  return w.x.p.drives() ? rank_beyond(w.s, w.x.p, k) : all_pairs::peer_at(w.s, static_cast<std::uint32_t>(k));
}
/// Each block by way of scratch.
TUTTI_HD constexpr Step direct_send(const Work& w, std::int32_t at) {
  const std::int32_t peer = direct_peer(w, at / 2);
  const std::uint32_t chunk = (w.lane + 1) * scratch_chunks(w.s, w.x) - 1;
  StepBuilder step = w.from_to(w.s.rank, peer);
  return at % 2 == 0 ? step.take(BufferId::kInput, w.block(peer)).store(BufferId::kScratch, chunk).step()
                     : step.take(BufferId::kScratch, chunk).send(peer).step();
}
TUTTI_HD constexpr Step direct_receive(const Work& w, std::int32_t k) {
  const std::int32_t peer = direct_peer(w, k);
  return w.from_to(peer, w.s.rank).recv(peer).store(BufferId::kOutput, w.block(peer)).step();
}

template <std::int32_t kRounds>
TUTTI_HD constexpr Extent extent(const Shape& s) {
  const Exchange x = exchange_of(s, kRounds);
  const auto ranks = static_cast<std::uint32_t>(s.ranks);
  const auto lanes = static_cast<std::uint32_t>(s.lanes);
  return Extent{lanes, ranks, ranks, lanes * scratch_chunks(s, x), static_cast<std::uint32_t>(message_chunks(x))};
}

template <std::int32_t kRounds>
TUTTI_HD constexpr std::uint32_t steps(const Shape& s) {
  if (s.ranks == 1) return 1;
  const Exchange x = exchange_of(s, kRounds);
  const std::int32_t direct = 3 * direct_peers(s, x);
  if (!x.p.drives()) return static_cast<std::uint32_t>(direct + 1);
  const std::int32_t rows = x.p.hosts * (keep_steps(s, x) + hand_out_steps(s, x));
  return static_cast<std::uint32_t>(direct + rows + within_steps(x) + between_steps(x));
}

/// A rank beyond the drivers only exchanges directly. A driver does so around the rest: in place, what arrives directly
/// takes the place of what it has kept by then.
template <std::int32_t kRounds>
TUTTI_HD constexpr Step step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const Work w{s, exchange_of(s, kRounds), lane};
  const std::int32_t direct = direct_peers(s, w.x);
  auto at = static_cast<std::int32_t>(i);
  if (at < 2 * direct) return direct_send(w, at);
  at -= 2 * direct;
  if (!w.x.p.drives()) {
    return at < direct ? direct_receive(w, direct - 1 - at) : all_pairs::own_block(s, lane).step();
  }
  const std::int32_t keeps = keep_steps(s, w.x);
  if (at < keeps * w.x.p.hosts) return keep(w, at / keeps, at % keeps);
  at -= keeps * w.x.p.hosts;
  if (at < within_steps(w.x)) return within_step(w, at);
  at -= within_steps(w.x);
  if (at < between_steps(w.x)) return between_step(w, at);
  at -= between_steps(w.x);
  const std::int32_t hands = hand_out_steps(s, w.x);
  if (at < hands * w.x.p.hosts) return hand_out(w, at / hands, at % hands);
  return direct_receive(w, direct - 1 - (at - hands * w.x.p.hosts));
}

template <std::int32_t kRounds>
constexpr Algorithm algorithm(const char* name) {
  return {.name = name,
          .collective = Collective::kAllToAll,
          .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kEqual},
          .hierarchical = true,
          .serves_alone = true,
          .max_lanes = 32,
          .steps = steps<kRounds>,
          .extent = extent<kRounds>,
          .step = step<kRounds>};
}
inline constexpr Algorithm kAllToAll = algorithm<1>("hierarchical");
inline constexpr Algorithm kAllToAll2 = algorithm<2>("hierarchical_2");
inline constexpr Algorithm kAllToAll3 = algorithm<3>("hierarchical_3");

}  // namespace tutti::hierarchical_all_to_all
