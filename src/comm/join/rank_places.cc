#include "comm/join/rank_places.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "core/core_list.h"

namespace tutti {

namespace {

/// Calls `what` with each rank, in order.
template <class What>
void for_each_rank(const MemberList& members, const What& what) {
  for (Rank rank{0}; static_cast<std::size_t>(rank.value) < members.size(); ++rank) what(rank);
}

}  // namespace

std::vector<int> hosts_of(const MemberList& members, const std::vector<Rank>& apart) {
  std::set<std::string_view> broken;
  for (const Rank rank : apart)
    if (static_cast<std::size_t>(rank.value) < members.size()) broken.insert(members.host(rank).id);
  int count = 0;
  std::vector<int> seen(members.hosts(), -1);  // most ranks are on a host that was seen before
  std::map<std::string_view, int> by_id;
  std::map<ProcessId, int> by_process;
  std::vector<int> hosts;
  for_each_rank(members, [&](Rank rank) {
    const std::string& id = members.host(rank).id;
    int& known = seen[members.host_number(rank)];
    if (members.segment_bytes(rank) == 0) {
      hosts.push_back(count++);
    } else if (broken.contains(id)) {
      hosts.push_back(by_process.try_emplace(members.process(rank), count).first->second);
    } else {
      if (known < 0) known = by_id.try_emplace(id, count).first->second;
      hosts.push_back(known);
    }
    count = std::max(count, hosts.back() + 1);
  });
  return hosts;
}

std::vector<int> processes_of(const ProcessOrder& order, std::size_t ranks) {
  std::vector<std::size_t> places(ranks);
  for (std::size_t place = 0; place < order.size(); ++place)
    for (const Rank rank : order[place].ranks) places[static_cast<std::size_t>(rank.value)] = place;
  std::vector<int> numbers(order.size(), -1), processes;
  int count = 0;
  for (const std::size_t place : places) {
    if (numbers[place] < 0) numbers[place] = count++;
    processes.push_back(numbers[place]);
  }
  return processes;
}

bool have_one_host_id(const MemberList& members) {
  for (std::size_t number = 0; number < members.hosts(); ++number)
    if (members.host_with_number(number).id != members.host_with_number(0).id) return false;
  return true;
}

int ranks_of_same_boot(const MemberHost& self, const MemberList& members) {
  if (self.boot_id == 0) return 1;
  int ranks = 0;
  for_each_rank(members, [&](Rank rank) { ranks += members.host(rank).boot_id == self.boot_id ? 1 : 0; });
  return ranks;
}

int cores_of_same_boot(Rank rank, const MemberList& members) {
  const std::uint64_t boot_id = members.host(rank).boot_id;
  std::vector<std::string_view> lists;
  std::size_t own = 0;
  for_each_rank(members, [&](Rank other) {
    if (other != rank && (members.host(other).boot_id != boot_id || boot_id == 0)) return;
    if (other == rank) own = lists.size();
    lists.push_back(members.cores(other));
  });
  return std::max(1, cores_among(lists, own));
}

int ranks_per_core_of(const MemberList& members) {
  const std::uint64_t boot_id = members.host(Rank{0}).boot_id;
  bool known = boot_id != 0;
  std::vector<std::string_view> lists;
  for_each_rank(members, [&](Rank rank) {
    const std::string& cores = members.cores(rank);
    known = known && !cores.empty() && members.host(rank).boot_id == boot_id;
    lists.push_back(cores);
  });
  if (!known) return 1;
  const auto cores = static_cast<std::size_t>(std::max(1, cores_among(lists, 0)));
  return static_cast<int>(div_up(members.size(), cores));
}

}  // namespace tutti
