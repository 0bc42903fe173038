// The rows of a hierarchical all-to-all (hierarchical_all_to_all.h): which host each is for, which of them travel
// together, and where they lie. constexpr, host and device.
#pragma once

#include "collectives/all_pairs.h"
#include "collectives/hierarchical/host_layout.h"
#include "schedule/step_builder.h"

namespace tutti::hierarchical_all_to_all {

using hosts::Place;

/// A message within a host has blocks for so many hosts, if there are as many. Directly, so many hosts are served while
/// the blocks for the next ones are exchanged: a rank has no more than twice as many messages under way.
inline constexpr std::int32_t kHostsTogether = 16;

/// What the steps of one rank depend on.
struct Exchange {
  Place p;
  std::int32_t log_row;  ///< a row has 2^log_row places
  std::int32_t digits;   ///< binary ones of a distance between hosts
  std::int32_t rounds;

  TUTTI_HD constexpr std::int32_t row_size() const { return 1 << log_row; }
  TUTTI_HD constexpr bool is_direct() const { return rounds == 1; }
  TUTTI_HD constexpr bool fills() const { return !is_direct() && row_size() > p.drivers; }
  /// How many hosts above this one the row's host is. In rounds the row is the distance; directly, hosts above and
  /// below take turns: in place, what comes from a host takes the place of what is for it, which must be kept by then.
  TUTTI_HD constexpr std::int32_t distance(std::int32_t row) const {
    if (!is_direct()) return row;
    return row % 2 == 1 ? (row + 1) / 2 : wrap(-row / 2, p.hosts);
  }
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
/// Rows whose distance has this digit.
TUTTI_HD constexpr std::int32_t rows_of(const Exchange& x, const Round& round, std::int32_t value) {
  const std::int32_t run = 1 << round.shift;
  const std::int32_t rest = x.p.hosts % (run << round.bits) - value * run;
  return x.p.hosts / (run << round.bits) * run + (rest < 0 ? 0 : rest < run ? rest : run);
}
/// From the first row's first place to the last row's last rank.
TUTTI_HD constexpr std::int32_t chunks_of_rows(const Exchange& x, std::int32_t rows) {
  return (rows - 1) * x.row_size() + x.p.drivers;
}
TUTTI_HD constexpr std::int32_t message_chunks(const Exchange& x) {
  std::int32_t most = x.p.drivers == 1 ? 1 : x.p.hosts < kHostsTogether ? x.p.hosts : kHostsTogether;
  for (std::int32_t r = 0; r < x.rounds; ++r) {
    const std::int32_t chunks = chunks_of_rows(x, rows_of(x, round_at(x, r), 1));
    most = chunks > most ? chunks : most;
  }
  return most;
}

/// Rows that follow one another, whose blocks are exchanged within the host in one message.
struct Group {
  std::int32_t first;
  std::int32_t rows;
};
TUTTI_HD constexpr std::int32_t rows_together(const Exchange& x) {
  return x.is_direct() ? kHostsTogether : message_chunks(x);
}
TUTTI_HD constexpr std::int32_t groups_of(const Exchange& x) {
  return (x.p.hosts + rows_together(x) - 1) / rows_together(x);
}
/// There are no rows beyond the last group.
TUTTI_HD constexpr Group group_at(const Exchange& x, std::int32_t number) {
  const std::int32_t first = number * rows_together(x);
  const std::int32_t left = first < x.p.hosts ? x.p.hosts - first : 0;
  return Group{first, left < rows_together(x) ? left : rows_together(x)};
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
  return static_cast<std::uint32_t>((x.p.drives() ? x.p.hosts * x.row_size() : 0) + (ranks_beyond(s, x.p) > 0 ? 1 : 0));
}

/// One lane of one rank.
struct Work {
  const Shape& s;
  Exchange x;
  std::uint32_t lane;

  TUTTI_HD constexpr std::uint32_t kept(std::int32_t row, std::int32_t place) const {
    return lane * scratch_chunks(s, x) + static_cast<std::uint32_t>(row * x.row_size() + place);
  }
  TUTTI_HD constexpr std::uint32_t block(std::int32_t rank) const {
    return static_cast<std::uint32_t>(rank * s.lanes) + lane;
  }
  TUTTI_HD constexpr StepBuilder from_to(std::int32_t from, std::int32_t to) const {
    return StepBuilder(lane, all_pairs::pair_chunk(s, from, to, lane));
  }
  /// A message to the peer, or from it, of chunks that the step's span has from this one on.
  TUTTI_HD constexpr Step exchange(StepBuilder step, std::int32_t peer, bool sends, std::uint32_t chunk) const {
    return sends ? step.take(BufferId::kScratch, chunk).send(peer).step()
                 : step.recv(peer).store(BufferId::kScratch, chunk).step();
  }
};

}  // namespace tutti::hierarchical_all_to_all
