#include "schedule/host_map.h"

#include <algorithm>
#include <map>

namespace tutti {

Topology::Topology(std::span<const int> host_of_rank) {
  std::map<int, std::int32_t> numbers;
  std::vector<std::vector<std::int32_t>> hosts;
  index_of_.reserve(host_of_rank.size());
  host_of_.reserve(host_of_rank.size());
  for (const int label : host_of_rank) {
    const std::int32_t host = numbers.emplace(label, static_cast<std::int32_t>(hosts.size())).first->second;
    if (static_cast<std::size_t>(host) == hosts.size()) hosts.emplace_back();
    auto& ranks = hosts[static_cast<std::size_t>(host)];
    index_of_.push_back(static_cast<std::int32_t>(ranks.size()));
    ranks.push_back(static_cast<std::int32_t>(host_of_.size()));
    host_of_.push_back(host);
  }
  first_.reserve(hosts.size() + 1);
  members_.reserve(host_of_.size());
  std::size_t fewest = host_of_.size();
  std::size_t most = 0;
  for (const auto& ranks : hosts) {
    first_.push_back(static_cast<std::int32_t>(members_.size()));
    members_.insert(members_.end(), ranks.begin(), ranks.end());
    fewest = std::min(fewest, ranks.size());
    most = std::max(most, ranks.size());
  }
  first_.push_back(static_cast<std::int32_t>(members_.size()));
  same_index_.reserve(fewest * hosts.size());
  for (std::size_t index = 0; index < fewest; ++index) {
    for (const auto& ranks : hosts) same_index_.push_back(ranks[index]);
  }
  map_ = HostMap{static_cast<std::int32_t>(hosts.size()),
                 static_cast<std::int32_t>(fewest),
                 static_cast<std::int32_t>(most),
                 host_of_.data(),
                 index_of_.data(),
                 first_.data(),
                 members_.data(),
                 same_index_.data(),
                 std::ranges::is_sorted(members_)};
}

}  // namespace tutti
