#include "comm/membership/process_order.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace tutti {
namespace {

/// The parent in a binomial tree on 0, 1, 2, ...: the place without its lowest bit that is set.
std::size_t tree_parent(std::size_t place) { return place & (place - 1); }

std::size_t index_of(Rank rank) { return static_cast<std::size_t>(rank.value); }

/// The host of each rank, as a number, in the order of the hosts' lowest ranks.
std::vector<std::uint32_t> host_numbers(const MemberList& members) {
  std::unordered_map<std::string_view, std::uint32_t> by_id;
  std::vector<std::uint32_t> numbers;
  numbers.reserve(members.hosts());
  for (std::size_t host = 0; host < members.hosts(); ++host)
    numbers.push_back(
        by_id.try_emplace(members.host_with_number(host).id, static_cast<std::uint32_t>(by_id.size())).first->second);
  std::vector<std::uint32_t> by_rank;
  by_rank.reserve(members.size());
  for (Rank rank{0}; index_of(rank) < members.size(); ++rank) by_rank.push_back(numbers[members.host_number(rank)]);
  return by_rank;
}

/// All ranks, in the order of the ids of their processes; those of one process ascend. What is sorted holds the first
/// bytes of each id, which nearly always decide, because ids are random.
std::vector<Rank> ranks_by_process(const MemberList& members) {
  struct Item {
    std::uint64_t first_bytes;
    Rank rank;
  };
  std::vector<Item> items;
  items.reserve(members.size());
  for (Rank rank{0}; index_of(rank) < members.size(); ++rank) {
    std::uint64_t first_bytes = 0;
    for (std::size_t i = 0; i < sizeof first_bytes; ++i)
      first_bytes = first_bytes << 8 | std::to_integer<std::uint64_t>(members.process(rank)[i]);
    items.push_back({first_bytes, rank});
  }
  std::sort(items.begin(), items.end(), [&members](const Item& a, const Item& b) {
    if (a.first_bytes != b.first_bytes) return a.first_bytes < b.first_bytes;
    return std::tie(members.process(a.rank), a.rank) < std::tie(members.process(b.rank), b.rank);
  });
  std::vector<Rank> ranks;
  ranks.reserve(items.size());
  for (const Item& item : items) ranks.push_back(item.rank);
  return ranks;
}

/// Sorts ranks by a number that each has, which is less than how many ranks there are. Those with one number keep their
/// order.
template <class NumberOf>
std::vector<Rank> sorted_by(const std::vector<Rank>& ranks, const NumberOf& number_of) {
  std::vector<std::uint32_t> nexts(ranks.size() + 1);  // by number: where the next rank with it goes
  for (const Rank rank : ranks) ++nexts[number_of(rank) + 1];
  std::partial_sum(nexts.begin(), nexts.end(), nexts.begin());
  std::vector<Rank> sorted(ranks.size());
  for (const Rank rank : ranks) sorted[nexts[number_of(rank)]++] = rank;
  return sorted;
}

}  // namespace

ProcessOrder::ProcessOrder(const MemberList& members, std::size_t mesh) : members_(members), mesh_(mesh) {
  const std::vector<std::uint32_t> hosts = host_numbers(members);
  const std::vector<Rank> by_id = ranks_by_process(members);
  std::vector<Rank> leaders(members.size());  // by rank: the lowest rank of its process
  for (std::size_t i = 0; i < by_id.size(); ++i) {
    const bool same = i > 0 && members.process(by_id[i]) == members.process(by_id[i - 1]);
    leaders[index_of(by_id[i])] = same ? leaders[index_of(by_id[i - 1])] : by_id[i];
  }
  const auto leader_of = [&](Rank rank) { return index_of(leaders[index_of(rank)]); };
  for (Rank rank{0}; index_of(rank) < members.size(); ++rank) ranks_.push_back(rank);
  ranks_ = sorted_by(sorted_by(ranks_, leader_of), [&](Rank rank) { return hosts[leader_of(rank)]; });

  std::vector<Index> places(members.size());  // by rank; only those of leaders are read
  const Rank* before = nullptr;               // the leader of the place before
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (leaders[index_of(ranks_[i])] != ranks_[i]) continue;
    const std::size_t place = first_ranks_.size();
    places[index_of(ranks_[i])] = static_cast<Index>(place);
    if (before == nullptr || hosts[index_of(*before)] != hosts[index_of(ranks_[i])])
      host_firsts_.push_back(static_cast<Index>(place));
    before = &ranks_[i];
    first_ranks_.push_back(static_cast<Index>(i));
  }
  host_firsts_.push_back(static_cast<Index>(first_ranks_.size()));
  first_ranks_.push_back(static_cast<Index>(ranks_.size()));
  std::vector<Index> by_process;
  for (const Rank rank : by_id)
    if (leaders[index_of(rank)] == rank) by_process.push_back(places[index_of(rank)]);
  by_process_ = CompactNumbers(by_process);
  if (size() == ranks_.size()) first_ranks_.clear();
  first_ranks_.shrink_to_fit();
  host_firsts_.shrink_to_fit();
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
  std::size_t begin = 0;
  std::size_t end = size();
  while (begin < end) {
    const std::size_t middle = begin + (end - begin) / 2;
    if (process(by_process_[middle]) < id)
      begin = middle + 1;
    else
      end = middle;
  }
  if (begin == size() || process(by_process_[begin]) != id) return std::nullopt;
  return by_process_[begin];
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
