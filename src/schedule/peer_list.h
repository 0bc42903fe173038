// Whom a set of peers names. constexpr, host and device.
#pragma once

#include <cstdint>

#include "schedule/generator.h"

namespace tutti {

/// Ranks in the order in which a reduction takes their operands, the own rank at its own place. A view.
struct PeerList {
  const std::int32_t* ranks = nullptr;  ///< by place; nullptr: rank r has place r
  std::int32_t count = 0;               ///< 0: there is no such set here
  std::int32_t first = 0;               ///< place of the list's first in `ranks`
  std::int32_t distance = 1;            ///< to the next
  std::int32_t own = 0;                 ///< where the rank itself stands in the list

  TUTTI_HD constexpr std::int32_t operator[](std::int32_t i) const {
    const std::int32_t place = first + i * distance;
    return ranks == nullptr ? place : ranks[place];
  }
};

/// The set as the rank of this shape sees it, which is the same list on all of its members. Without a map of hosts
/// every rank is a host of its own. Nothing for kNone, for kOne, and for kGroup, which only a step tells
/// (senders_of()).
TUTTI_HD constexpr PeerList peers_of(const Shape& s, PeerSet set) {
  const bool flat = s.hosts == nullptr || s.hosts->hosts == 1;
  if (set == PeerSet::kAll || (set == PeerSet::kAcross && flat)) return PeerList{nullptr, s.ranks, 0, 1, s.rank};
  if (flat) return PeerList{};
  const HostMap& map = *s.hosts;
  const std::int32_t host = map.host_of(s.rank);
  const std::int32_t index = map.index_of(s.rank);
  if (set == PeerSet::kHost) {
    return PeerList{map.lists.ranks, map.size_of(host), map.ranks_before(host), 1, index};
  }
  if (set != PeerSet::kAcross || index >= map.fewest) return PeerList{};
  if (!map.has_lists()) return PeerList{nullptr, map.hosts, index, map.most, host};
  return PeerList{map.lists.same_index, map.hosts, index * map.hosts, 1, host};
}

/// The set that a step of the rank of this shape receives from. Nothing where that is no set, or a group that goes
/// beyond the last host.
TUTTI_HD constexpr PeerList senders_of(const Shape& s, const Step& step) {
  if (step.recv_from != PeerSet::kGroup) return peers_of(s, step.recv_from);
  PeerList list = peers_of(s, PeerSet::kAcross);
  const HostGroup group = HostGroup::from_peer(step.recv_peer);
  if (group.distance < 1 || group.members < 1) return PeerList{};
  const bool flat = s.hosts == nullptr || s.hosts->hosts == 1;
  const std::int32_t host = flat ? s.rank : s.hosts->host_of(s.rank);
  list.own = group.place_of(host);
  const std::int32_t first = host - list.own * group.distance;
  if (first + (group.members - 1) * group.distance >= list.count) return PeerList{};
  list.first += first * list.distance;
  list.distance *= group.distance;
  list.count = group.members;
  return list;
}

}  // namespace tutti
