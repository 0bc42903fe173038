// The rounds of hierarchical_rounds.h: whom a rank meets in each, and what they exchange. constexpr, host and device.
#pragma once

#include "collectives/hierarchical/host_layout.h"
#include "schedule/step_builder.h"

namespace tutti::hierarchical_rounds {

using hosts::Place;

/// Where the ranks of each host follow one another, so that the blocks of hosts that do are a span.
TUTTI_HD constexpr bool is_served(const Shape& s) { return hosts::is_flat(s) || s.hosts->follow_one_another; }

/// What the rounds of one rank depend on: before round r a host deals with its own row and those of the base^r - 1
/// hosts after it, around the end.
struct Rounds {
  Place p;
  std::int32_t base, count;

  TUTTI_HD constexpr std::int32_t rows_before(std::int32_t round) const {
    std::int32_t rows = 1;
    for (std::int32_t r = 0; r < round; ++r) rows *= base;
    return rows;
  }
  TUTTI_HD constexpr std::int32_t rows_after(std::int32_t round) const {
    return round + 1 < count ? rows_before(round + 1) : p.hosts;
  }
  /// Drivers of a host that are busy in the round. The k-th of them meets the host k + 1 times rows_before away.
  TUTTI_HD constexpr std::int32_t busy(std::int32_t round) const {
    return (rows_after(round) - 1) / rows_before(round);
  }
  TUTTI_HD constexpr bool is_busy(std::int32_t round) const { return p.index < busy(round); }
  TUTTI_HD constexpr std::int32_t distance(std::int32_t round, std::int32_t k) const {
    return (k + 1) * rows_before(round);
  }
  /// Rows of the k-th driver's message.
  TUTTI_HD constexpr std::int32_t rows(std::int32_t round, std::int32_t k) const {
    const std::int32_t left = rows_after(round) - distance(round, k);
    return left < 0 ? 0 : left < rows_before(round) ? left : rows_before(round);
  }
};

/// As few rounds as D drivers allow, each of which meets another host: H <= (D+1)^rounds. The last round moves most, so
/// all drivers should be busy in it: the base is the least with which that round still reaches all hosts.
TUTTI_HD constexpr Rounds rounds_of(const Shape& s) {
  Rounds rounds{hosts::place_of(s), 1, 0};
  const std::int32_t meet = rounds.p.drivers + 1;
  for (std::int64_t reached = 1; reached < rounds.p.hosts; reached *= meet) ++rounds.count;
  while (std::int64_t{rounds.rows_before(rounds.count - 1)} * meet < rounds.p.hosts) ++rounds.base;
  return rounds;
}

/// Chunks of the longest message at most.
TUTTI_HD constexpr std::uint32_t message_chunks(const Shape& s) {
  const std::int32_t rows = rounds_of(s).rows_before(rounds_of(s).count - 1);
  return static_cast<std::uint32_t>(rows * (hosts::is_flat(s) ? 1 : s.hosts->most));
}

/// The first rank of a host, or n after the last one.
TUTTI_HD constexpr std::int32_t first_rank(const Shape& s, std::int32_t host) {
  return hosts::is_flat(s) ? host : s.hosts->ranks_before(host);
}
/// Ranks of so many hosts that follow one another, around the end.
TUTTI_HD constexpr std::int32_t ranks_of(const Shape& s, std::int32_t host, std::int32_t rows) {
  const std::int32_t beyond = host + rows - hosts::count(s);
  const std::int32_t end = beyond > 0 ? s.ranks + first_rank(s, beyond) : first_rank(s, host + rows);
  return end - first_rank(s, host);
}

/// One lane of one rank.
struct Work {
  const Shape& s;
  Rounds x;
  std::uint32_t lane;
  TUTTI_HD constexpr std::int32_t host_at(std::int32_t distance) const { return wrap(x.p.host + distance, x.p.hosts); }
  TUTTI_HD constexpr std::uint32_t block(std::int32_t rank) const {
    return static_cast<std::uint32_t>(rank * s.lanes) + lane;
  }
  /// A step on the blocks of some hosts.
  TUTTI_HD constexpr StepBuilder on(std::int32_t host, std::int32_t rows) const {
    return StepBuilder(lane, block(first_rank(s, host))).span(ranks_of(s, host, rows));
  }
  TUTTI_HD constexpr std::int32_t near(std::int32_t index) const { return hosts::rank_at(s, x.p.host, index); }
  /// The own driver's peer on the host so far away.
  TUTTI_HD constexpr std::int32_t peer(std::int32_t distance) const {
    return hosts::rank_at(s, host_at(distance), x.p.index);
  }
  /// The k-th other rank of the host, from the left neighbour down, so that what was sent first comes first.
  TUTTI_HD constexpr std::int32_t index_left(std::int32_t k) const { return wrap(x.p.index - 1 - k, x.p.size); }
  TUTTI_HD constexpr std::int32_t other_left(std::int32_t k) const { return near(index_left(k)); }
};

}  // namespace tutti::hierarchical_rounds
