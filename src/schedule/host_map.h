// Which ranks share a host: the topology as generators see it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/units.h"

namespace tutti {

/// A view without ownership: plain pointers, so that device code can read it too. Hosts are numbered from 0 in the
/// order of their first ranks, so a host's number tells how its lowest rank compares with those of other hosts. Where
/// all hosts have equally many ranks, and these follow one another, it needs no lists.
struct HostMap {
  /// All are nullptr where no lists are needed.
  struct Lists {
    const std::int32_t* host_of = nullptr;     ///< by rank
    const std::int32_t* index_of = nullptr;    ///< by rank
    const std::int32_t* first = nullptr;       ///< by host, and one more: where its ranks begin in `ranks`
    const std::int32_t* ranks = nullptr;       ///< host by host
    const std::int32_t* same_index = nullptr;  ///< for each index below `fewest`: its rank on every host, by host
  };

  std::int32_t hosts = 1;
  std::int32_t fewest = 1;          ///< ranks of the smallest host
  std::int32_t most = 1;            ///< ranks of the largest host
  bool follow_one_another = false;  ///< whether the ranks of each host do
  Lists lists{};

  TUTTI_HD constexpr bool has_lists() const { return lists.ranks != nullptr; }
  TUTTI_HD constexpr std::int32_t host_of(std::int32_t rank) const {
    return has_lists() ? lists.host_of[rank] : rank / most;
  }
  /// The place of a rank among the ranks of its host, in rank order.
  TUTTI_HD constexpr std::int32_t index_of(std::int32_t rank) const {
    return has_lists() ? lists.index_of[rank] : rank % most;
  }
  /// How many ranks the hosts before this one have; `host` may be that after the last one.
  TUTTI_HD constexpr std::int32_t ranks_before(std::int32_t host) const {
    return has_lists() ? lists.first[host] : host * most;
  }
  /// The ranks of a host.
  TUTTI_HD constexpr std::int32_t size_of(std::int32_t host) const {
    return ranks_before(host + 1) - ranks_before(host);
  }
  TUTTI_HD constexpr std::int32_t rank_at(std::int32_t host, std::int32_t index) const {
    const std::int32_t place = ranks_before(host) + index;
    return has_lists() ? lists.ranks[place] : place;
  }
};

/// Owns what a HostMap points to. Built once per communicator; safe from any thread then.
class Topology {
 public:
  /// `host_of_rank`: equal numbers share a host, whatever the numbers are; at least one rank.
  explicit Topology(std::span<const int> host_of_rank);
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;

  const HostMap& map() const { return map_; }

 private:
  void make_lists(std::span<const int> hosts);

  HostMap map_;
  // The lists of the map; empty where it has none.
  std::vector<std::int32_t> host_of_;
  std::vector<std::int32_t> index_of_;
  std::vector<std::int32_t> first_;
  std::vector<std::int32_t> ranks_;
  std::vector<std::int32_t> same_index_;
};

/// The ranks of a host, in rank order.
std::vector<std::int32_t> ranks_of_host(const HostMap& map, std::int32_t host);
/// The rank with this index on every host, by host; `index` is below HostMap::fewest.
std::vector<std::int32_t> ranks_with_index(const HostMap& map, std::int32_t index);

}  // namespace tutti
