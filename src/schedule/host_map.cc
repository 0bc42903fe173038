#include "schedule/host_map.h"

#include <algorithm>
#include <map>

namespace tutti {
namespace {

/// The hosts by rank, numbered from 0 in the order of their first ranks.
std::vector<int> numbered(std::span<const int> host_of_rank) {
  std::map<int, int> numbers;
  std::vector<int> hosts;
  hosts.reserve(host_of_rank.size());
  for (const int label : host_of_rank)
    hosts.push_back(numbers.emplace(label, static_cast<int>(numbers.size())).first->second);
  return hosts;
}

}  // namespace

Topology::Topology(std::span<const int> host_of_rank) {
  const std::vector<int> hosts = numbered(host_of_rank);
  std::vector<std::int32_t> sizes;
  for (const int host : hosts) {
    if (static_cast<std::size_t>(host) == sizes.size()) sizes.push_back(0);
    ++sizes[static_cast<std::size_t>(host)];
  }
  map_.hosts = static_cast<std::int32_t>(sizes.size());
  map_.fewest = *std::ranges::min_element(sizes);
  map_.most = *std::ranges::max_element(sizes);
  map_.follow_one_another = std::ranges::is_sorted(hosts);
  if (!map_.follow_one_another || map_.fewest != map_.most) make_lists(hosts);
}

void Topology::make_lists(std::span<const int> hosts) {
  std::vector<std::vector<std::int32_t>> ranks(static_cast<std::size_t>(map_.hosts));
  for (const int host : hosts) {
    auto& there = ranks[static_cast<std::size_t>(host)];
    index_of_.push_back(static_cast<std::int32_t>(there.size()));
    there.push_back(static_cast<std::int32_t>(host_of_.size()));
    host_of_.push_back(host);
  }
  for (const auto& there : ranks) {
    first_.push_back(static_cast<std::int32_t>(ranks_.size()));
    ranks_.insert(ranks_.end(), there.begin(), there.end());
  }
  first_.push_back(static_cast<std::int32_t>(ranks_.size()));
  for (std::size_t index = 0; index < static_cast<std::size_t>(map_.fewest); ++index) {
    for (const auto& there : ranks) same_index_.push_back(there[index]);
  }
  for (std::vector<std::int32_t>* const list : {&host_of_, &index_of_, &first_, &ranks_, &same_index_})
    list->shrink_to_fit();
  map_.lists = HostMap::Lists{host_of_.data(), index_of_.data(), first_.data(), ranks_.data(), same_index_.data()};
}

std::vector<std::int32_t> ranks_of_host(const HostMap& map, std::int32_t host) {
  std::vector<std::int32_t> ranks;
  ranks.reserve(static_cast<std::size_t>(map.size_of(host)));
  for (std::int32_t index = 0; index < map.size_of(host); ++index) ranks.push_back(map.rank_at(host, index));
  return ranks;
}

std::vector<std::int32_t> ranks_with_index(const HostMap& map, std::int32_t index) {
  std::vector<std::int32_t> ranks;
  ranks.reserve(static_cast<std::size_t>(map.hosts));
  for (std::int32_t host = 0; host < map.hosts; ++host) ranks.push_back(map.rank_at(host, index));
  return ranks;
}

}  // namespace tutti
