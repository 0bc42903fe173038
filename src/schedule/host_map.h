// Which ranks share a host: the topology as generators see it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tutti {

/// A view without ownership: plain pointers, so that device code can read it too. Hosts are numbered from 0 in the
/// order of their first ranks, so a host's number tells how its lowest rank compares with those of other hosts.
struct HostMap {
  std::int32_t hosts = 1;
  std::int32_t fewest = 1;                   ///< ranks of the smallest host
  std::int32_t most = 1;                     ///< ranks of the largest host
  const std::int32_t* host_of = nullptr;     ///< by rank
  const std::int32_t* index_of = nullptr;    ///< by rank: its place among the ranks of its host, in rank order
  const std::int32_t* first = nullptr;       ///< by host, and one more: where its ranks begin in `members`
  const std::int32_t* members = nullptr;     ///< the ranks, host by host
  const std::int32_t* same_index = nullptr;  ///< for each index below `fewest`: its rank on every host, by host
  bool follow_one_another = false;           ///< whether the ranks of each host do
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
  HostMap map_;
  std::vector<std::int32_t> host_of_;
  std::vector<std::int32_t> index_of_;
  std::vector<std::int32_t> first_;
  std::vector<std::int32_t> members_;
  std::vector<std::int32_t> same_index_;
};

}  // namespace tutti
