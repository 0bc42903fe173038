// Whom a set of peers names. constexpr, host and device.
#pragma once

#include <cstdint>

#include "schedule/generator.h"

namespace tutti {

/// Ranks in the order in which a reduction takes their operands, the own rank at its own place. A view.
struct PeerList {
  const std::int32_t* ranks = nullptr;  ///< nullptr: 0 to count - 1
  std::int32_t count = 0;               ///< 0: there is no such set here

  TUTTI_HD constexpr std::int32_t operator[](std::int32_t i) const { return ranks == nullptr ? i : ranks[i]; }
};

/// The set as the rank of this shape sees it, which is the same list on all of its members. Without a map of hosts
/// every rank is a host of its own. Nothing for kNone and kOne.
TUTTI_HD constexpr PeerList peers_of(const Shape& s, PeerSet set) {
  const bool flat = s.hosts == nullptr || s.hosts->hosts == 1;
  if (set == PeerSet::kAll || (set == PeerSet::kAcross && flat)) return PeerList{nullptr, s.ranks};
  if (flat) return PeerList{};
  const HostMap& map = *s.hosts;
  const std::int32_t host = map.host_of[s.rank];
  const std::int32_t index = map.index_of[s.rank];
  if (set == PeerSet::kHost) return PeerList{map.members + map.first[host], map.first[host + 1] - map.first[host]};
  if (set != PeerSet::kAcross || index >= map.fewest) return PeerList{};
  return PeerList{map.same_index + index * map.hosts, map.hosts};
}

}  // namespace tutti
