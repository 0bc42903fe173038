#include "comm/membership/process_order.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace tutti {
namespace {

/// The parent in a binomial tree on 0, 1, 2, ...: the place without its lowest bit that is set.
std::size_t tree_parent(std::size_t place) { return place & (place - 1); }

/// The host of each rank, as a number, in the order of the hosts' lowest ranks.
std::vector<std::size_t> host_numbers(const std::vector<Member>& members) {
  std::map<const MemberHost*, std::size_t> seen;  // most members are on one that was seen before
  std::map<std::string, std::size_t> by_id;
  std::vector<std::size_t> numbers;
  for (const Member& member : members) {
    const auto [found, first] = seen.try_emplace(member.host.get(), 0);
    if (first) found->second = by_id.try_emplace(member.host->id, by_id.size()).first->second;
    numbers.push_back(found->second);
  }
  return numbers;
}

}  // namespace

ProcessOrder::ProcessOrder(const std::vector<Member>& members, std::size_t mesh) : mesh_(mesh) {
  const std::vector<std::size_t> hosts = host_numbers(members);
  for (const Member& member : members) ranks_.push_back(member.rank);
  const auto member_of = [&](Rank rank) -> const Member& { return members[static_cast<std::size_t>(rank.value)]; };
  std::sort(ranks_.begin(), ranks_.end(),
            [&](Rank a, Rank b) { return std::tie(member_of(a).process, a) < std::tie(member_of(b).process, b); });
  for (std::size_t first = 0, end = 0; first < ranks_.size(); first = end) {
    const ProcessId& process = member_of(ranks_[first]).process;
    while (end < ranks_.size() && member_of(ranks_[end]).process == process) ++end;
    places_.push_back(Place{process, std::span(ranks_).subspan(first, end - first), 0, 0});
  }
  const auto host_of = [&](const Place& place) { return hosts[static_cast<std::size_t>(place.ranks[0].value)]; };
  std::sort(places_.begin(), places_.end(), [&](const Place& a, const Place& b) {
    return std::pair(host_of(a), a.ranks[0]) < std::pair(host_of(b), b.ranks[0]);
  });
  for (std::size_t first = 0, end = 0; first < places_.size(); first = end) {
    while (end < places_.size() && host_of(places_[end]) == host_of(places_[first])) ++end;
    for (std::size_t place = first; place < end; ++place)
      places_[place].host_first = first, places_[place].host_end = end;
  }
  by_process_.resize(places_.size());
  std::iota(by_process_.begin(), by_process_.end(), std::size_t{0});
  std::sort(by_process_.begin(), by_process_.end(),
            [this](std::size_t a, std::size_t b) { return places_[a].process < places_[b].process; });
}

std::optional<std::size_t> ProcessOrder::find(const ProcessId& process) const {
  const auto found =
      std::lower_bound(by_process_.begin(), by_process_.end(), process,
                       [this](std::size_t place, const ProcessId& id) { return places_[place].process < id; });
  if (found == by_process_.end() || places_[*found].process != process) return std::nullopt;
  return *found;
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
