#include "comm/membership/process_order.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

namespace tutti {
namespace {

/// The parent in a binomial tree on 0, 1, 2, ...: the place without its lowest bit that is set.
std::size_t tree_parent(std::size_t place) { return place & (place - 1); }

/// The host of each rank, as a number, in the order of the hosts' lowest ranks.
std::vector<std::uint32_t> host_numbers(const MemberList& members) {
  std::map<std::string_view, std::uint32_t> by_id;
  std::vector<std::uint32_t> numbers;
  for (std::size_t host = 0; host < members.hosts(); ++host)
    numbers.push_back(
        by_id.try_emplace(members.host_with_number(host).id, static_cast<std::uint32_t>(by_id.size())).first->second);
  std::vector<std::uint32_t> by_rank;
  by_rank.reserve(members.size());
  for (Rank rank{0}; static_cast<std::size_t>(rank.value) < members.size(); ++rank)
    by_rank.push_back(numbers[members.host_number(rank)]);
  return by_rank;
}

}  // namespace

ProcessOrder::ProcessOrder(const MemberList& members, std::size_t mesh) : members_(members), mesh_(mesh) {
  const std::vector<std::uint32_t> hosts = host_numbers(members);
  std::vector<Rank> by_id(members.size());
  for (std::size_t i = 0; i < members.size(); ++i) by_id[i] = Rank{static_cast<std::int32_t>(i)};
  ranks_ = by_id;
  std::sort(by_id.begin(), by_id.end(),
            [&members](Rank a, Rank b) { return std::tie(members.process(a), a) < std::tie(members.process(b), b); });
  const auto index = [](Rank rank) { return static_cast<std::size_t>(rank.value); };
  std::vector<Rank> leaders(members.size());  // by rank: the lowest rank of its process
  for (std::size_t i = 0; i < by_id.size(); ++i) {
    const bool same = i > 0 && members.process(by_id[i]) == members.process(by_id[i - 1]);
    leaders[index(by_id[i])] = same ? leaders[index(by_id[i - 1])] : by_id[i];
  }
  const auto place_of = [&](Rank rank) {
    const Rank leader = leaders[index(rank)];
    return std::tuple(hosts[index(leader)], leader, rank);
  };
  std::sort(ranks_.begin(), ranks_.end(), [&](Rank a, Rank b) { return place_of(a) < place_of(b); });

  std::vector<Number> places(members.size());  // by rank; only those of leaders are read
  const Rank* before = nullptr;                // the leader of the place before
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (leaders[index(ranks_[i])] != ranks_[i]) continue;
    const std::size_t place = first_ranks_.size();
    places[index(ranks_[i])] = static_cast<Number>(place);
    if (before == nullptr || hosts[index(*before)] != hosts[index(ranks_[i])])
      host_firsts_.push_back(static_cast<Index>(place));
    before = &ranks_[i];
    first_ranks_.push_back(static_cast<Index>(i));
  }
  host_firsts_.push_back(static_cast<Index>(first_ranks_.size()));
  first_ranks_.push_back(static_cast<Index>(ranks_.size()));
  for (const Rank rank : by_id)
    if (leaders[index(rank)] == rank) by_process_.push_back(places[index(rank)]);
  if (size() == ranks_.size()) first_ranks_.clear();
  first_ranks_.shrink_to_fit();
  host_firsts_.shrink_to_fit();
  by_process_.shrink_to_fit();
}

ProcessOrder::Place ProcessOrder::operator[](std::size_t place) const {
  const std::size_t first = first_rank(place);
  const std::size_t host = host_of(place);
  return Place{process(place), std::span(ranks_).subspan(first, first_rank(place + 1) - first), host_firsts_[host],
               host_firsts_[host + 1]};
}

std::size_t ProcessOrder::host_of(std::size_t place) const {
  return static_cast<std::size_t>(std::upper_bound(host_firsts_.begin(), host_firsts_.end(), place) -
                                  host_firsts_.begin() - 1);
}

std::optional<std::size_t> ProcessOrder::find(const ProcessId& id) const {
  const auto found =
      std::lower_bound(by_process_.begin(), by_process_.end(), id,
                       [this](Number place, const ProcessId& wanted) { return process(place) < wanted; });
  if (found == by_process_.end() || process(*found) != id) return std::nullopt;
  return *found;
}

std::optional<std::size_t> ProcessOrder::parent(std::size_t place) const {
  return place == 0 ? std::nullopt : std::optional(tree_parent(place));
}

std::vector<std::size_t> ProcessOrder::children(std::size_t place) const {
  std::vector<std::size_t> found;
  for (std::size_t bit = 1; place + bit < size() && (place & bit) == 0; bit *= 2) found.push_back(place + bit);
  return found;
}

std::optional<std::size_t> ProcessOrder::host_parent(std::size_t place) const {
  const std::size_t first = host_firsts_[host_of(place)];
  return place == first ? std::nullopt : std::optional(first + tree_parent(place - first));
}

std::vector<std::size_t> ProcessOrder::neighbours(std::size_t place) const {
  const std::size_t n = size();
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
  const std::size_t n = size();
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
