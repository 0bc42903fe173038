// Hosts and drivers, the places of hierarchical algorithms. A host's drivers are its first ranks, as many on every host
// as the smallest host has; the d-th drivers of all hosts form a circle of their own and share the network with the
// other circles. Where no ranks are known to share a host, every rank is a host. constexpr, host and device.
#pragma once

#include "collectives/rank_circle.h"
#include "schedule/generator.h"

namespace tutti::hosts {

TUTTI_HD constexpr bool is_flat(const Shape& s) { return s.hosts == nullptr || s.hosts->hosts == 1; }
TUTTI_HD constexpr std::int32_t count(const Shape& s) { return is_flat(s) ? s.ranks : s.hosts->hosts; }
TUTTI_HD constexpr std::int32_t drivers(const Shape& s) { return is_flat(s) ? 1 : s.hosts->fewest; }

TUTTI_HD constexpr std::int32_t host_of(const Shape& s, std::int32_t rank) {
  return is_flat(s) ? rank : s.hosts->host_of(rank);
}
/// Place of a rank among those of its host.
TUTTI_HD constexpr std::int32_t index_of(const Shape& s, std::int32_t rank) {
  return is_flat(s) ? 0 : s.hosts->index_of(rank);
}
/// Ranks of a host.
TUTTI_HD constexpr std::int32_t size_of(const Shape& s, std::int32_t host) {
  return is_flat(s) ? 1 : s.hosts->size_of(host);
}
TUTTI_HD constexpr std::int32_t rank_at(const Shape& s, std::int32_t host, std::int32_t index) {
  return is_flat(s) ? host : s.hosts->rank_at(host, index);
}

/// The shape of an algorithm whose ranks are the hosts.
TUTTI_HD constexpr Shape circle(const Shape& s) {
  return Shape{count(s), host_of(s, s.rank), host_of(s, s.root), s.lanes, nullptr};
}

/// A rank's place in its host.
struct Place {
  std::int32_t host;
  std::int32_t index;
  std::int32_t size;  ///< ranks of the host
  std::int32_t hosts;
  std::int32_t drivers;  ///< of each host

  TUTTI_HD constexpr bool drives() const { return index < drivers; }
  TUTTI_HD constexpr std::int32_t others() const { return size - 1; }
};
TUTTI_HD constexpr Place place_of(const Shape& s) {
  const std::int32_t host = host_of(s, s.rank);
  return Place{host, index_of(s, s.rank), size_of(s, host), count(s), drivers(s)};
}

/// The k-th other rank of the host, from the right neighbour on, so that not all write to the same one first.
TUTTI_HD constexpr std::int32_t other(const Shape& s, const Place& p, std::int32_t k) {
  return rank_at(s, p.host, wrap(p.index + 1 + k, p.size));
}

/// Other drivers of the host.
TUTTI_HD constexpr std::int32_t other_drivers(const Place& p) { return p.drivers - (p.drives() ? 1 : 0); }
/// The k-th of them, from the right neighbour on, or from the left one down.
TUTTI_HD constexpr std::int32_t driver_right(const Place& p, std::int32_t k) {
  return wrap(p.index + k + (p.drives() ? 1 : 0), p.drivers);
}
TUTTI_HD constexpr std::int32_t driver_left(const Place& p, std::int32_t k) { return wrap(p.index - 1 - k, p.drivers); }

}  // namespace tutti::hosts
