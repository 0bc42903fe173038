// The data of a recursive exchange (recursive_exchange.h) as one lane of one rank sees it: which chunks a driver's
// share has, which of them a round works on, and in which buffer partial results lie. constexpr, host and device.
#pragma once

#include "collectives/hierarchical/host_rounds.h"
#include "schedule/step_builder.h"

namespace tutti::recursive_exchange {

using host_rounds::Range;
using hosts::Place;

/// A driver's part in the exchange.
struct Exchange {
  std::int32_t rounds;
  std::int32_t scattered;  ///< of the rounds, the first ones that divide what they work on
  std::int32_t parts;      ///< of a share
  std::int32_t pieces;     ///< in which a share crosses the host
  bool is_guest;
  bool has_guest;
};
TUTTI_HD constexpr Exchange exchange_of(const Shape& s, const Place& p, std::int32_t wanted) {
  const std::int32_t rounds = host_rounds::count(s);
  const std::int32_t scattered = wanted < rounds ? wanted : rounds;
  const std::int32_t pieces = wanted < 2 ? 1 : host_rounds::first_members(s);
  return Exchange{rounds,
                  scattered,
                  host_rounds::parts(s, scattered),
                  pieces,
                  host_rounds::is_guest(s, p.host),
                  host_rounds::has_guest(s, p.host)};
}

/// One lane of one rank.
struct Work {
  const Shape& s;
  Place p;
  Exchange x;
  std::uint32_t lane;

  /// A step on parts of a driver's share.
  TUTTI_HD constexpr StepBuilder on(std::int32_t driver, const Range& range) const {
    const std::uint32_t share = lane * static_cast<std::uint32_t>(p.drivers) + static_cast<std::uint32_t>(driver);
    const std::uint32_t first = share * static_cast<std::uint32_t>(x.parts) + static_cast<std::uint32_t>(range.begin);
    return StepBuilder(lane, first).span(range.size);
  }
  TUTTI_HD constexpr Range whole() const { return Range{0, x.parts}; }
  /// Piece `q` in the order in which the host's drivers collect them, the own one last; and in the order in which they
  /// hand them out, the own one first.
  TUTTI_HD constexpr Range collected_piece(std::int32_t q) const { return piece(p.host + 1 + q); }
  TUTTI_HD constexpr Range given_piece(std::int32_t q) const { return piece(p.host - q); }
  TUTTI_HD constexpr Range piece(std::int32_t number) const {
    const std::int32_t size = x.parts / x.pieces;
    return Range{wrap(number, x.pieces) * size, size};
  }
  /// The parts that are left to a host after so many rounds have divided its share.
  TUTTI_HD constexpr Range range_after(std::int32_t host, std::int32_t rounds) const {
    return host_rounds::range_after(s, x.scattered, host, rounds);
  }

  TUTTI_HD constexpr std::int32_t neighbour(std::int32_t index) const { return hosts::rank_at(s, p.host, index); }
  TUTTI_HD constexpr std::int32_t driver_of(std::int32_t host) const { return hosts::rank_at(s, host, p.index); }

  TUTTI_HD constexpr bool scatters() const { return x.scattered > 0; }
  /// Whether the host's contributions go on at once to where the first round divides them.
  TUTTI_HD constexpr bool passes_on() const { return x.pieces > 1 && !x.is_guest && !x.has_guest; }
  /// A driver that is alone on its host has nothing to collect, but what lies in scratch.
  TUTTI_HD constexpr bool collects() const { return p.size > 1 || !scatters(); }
  /// Where the host's partial result lies when it has been collected.
  TUTTI_HD constexpr BufferId collected() const {
    if (!scatters()) return BufferId::kScratch;
    return p.size > 1 ? BufferId::kOutput : BufferId::kInput;
  }
};

/// Scratch has one chunk a lane.
TUTTI_HD constexpr StepBuilder& take(StepBuilder& step, BufferId buffer) {
  return step.take(buffer, buffer == BufferId::kScratch ? step.step().lane : step.step().chunk);
}
TUTTI_HD constexpr StepBuilder& reduce(StepBuilder& step, BufferId buffer, bool own_left = false) {
  return step.reduce(buffer, buffer == BufferId::kScratch ? step.step().lane : step.step().chunk, own_left);
}
TUTTI_HD constexpr StepBuilder& store(StepBuilder& step, BufferId buffer) {
  return step.store(buffer, buffer == BufferId::kScratch ? step.step().lane : step.step().chunk);
}

TUTTI_HD constexpr Work work_of(const Shape& s, std::uint32_t lane, std::int32_t wanted) {
  const Place p = hosts::place_of(s);
  return Work{s, p, exchange_of(s, p, wanted), lane};
}

}  // namespace tutti::recursive_exchange
