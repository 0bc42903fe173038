#include "comm/membership/process_order.h"

#include <algorithm>
#include <set>
#include <string>

namespace tutti {
namespace {

/// The parent in a binomial tree on 0, 1, 2, ...: the place without its lowest bit that is set.
std::size_t tree_parent(std::size_t place) { return place & (place - 1); }

}  // namespace

ProcessOrder::ProcessOrder(const std::vector<Member>& members, std::size_t mesh) : mesh_(mesh) {
  std::map<std::string, std::vector<Place>> hosts;
  std::vector<const std::string*> order;  // the order of the hosts
  std::map<ProcessId, std::pair<std::vector<Place>*, std::size_t>> known;
  for (const Member& member : members) {
    std::vector<Place>& host = hosts[member.host_id];
    const auto [found, first] = known.try_emplace(member.process, &host, host.size());
    if (first) {
      if (host.empty()) order.push_back(&hosts.find(member.host_id)->first);
      host.push_back(Place{member.process, {}, 0, 0});
    }
    (*found->second.first)[found->second.second].ranks.push_back(member.rank);
  }
  for (const std::string* const host : order) {
    const std::size_t first = places_.size();
    const std::size_t end = first + hosts.at(*host).size();
    for (Place& place : hosts.at(*host)) {
      place.host_first = first;
      place.host_end = end;
      by_process_[place.process] = places_.size();
      places_.push_back(std::move(place));
    }
  }
}

std::optional<std::size_t> ProcessOrder::find(const ProcessId& process) const {
  const auto found = by_process_.find(process);
  return found == by_process_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::size_t> ProcessOrder::parent(std::size_t place) const {
  return place == 0 ? std::nullopt : std::optional(tree_parent(place));
}

std::optional<std::size_t> ProcessOrder::host_parent(std::size_t place) const {
  const std::size_t first = places_[place].host_first;
  return place == first ? std::nullopt : std::optional(first + tree_parent(place - first));
}

std::vector<std::size_t> ProcessOrder::neighbours(std::size_t place) const {
  const std::size_t n = places_.size();
  std::set<std::size_t> found;
  const auto add = [&](std::size_t distance) {
    found.insert((place + distance) % n);
    found.insert((place + n - distance) % n);
  };
  for (std::size_t distance = 1; distance < n; distance = is_mesh() ? distance + 1 : 2 * distance) add(distance);
  found.erase(place);
  return {found.begin(), found.end()};
}

std::vector<std::size_t> ProcessOrder::fingers(std::size_t place, const std::vector<bool>& present) const {
  const std::size_t n = places_.size();
  std::set<std::size_t> found;
  for (std::size_t distance = 1; distance < n; distance *= 2) {
    std::size_t at = (place + distance) % n;
    while (at != place && !present[at]) at = (at + 1) % n;
    found.insert(at);
  }
  found.erase(place);
  return {found.begin(), found.end()};
}

}  // namespace tutti
