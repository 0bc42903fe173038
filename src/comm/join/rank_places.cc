#include "comm/join/rank_places.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "core/core_list.h"

namespace tutti {

std::vector<int> hosts_of(const std::vector<Member>& members, const std::vector<Rank>& apart) {
  std::set<std::string> broken;
  for (const Rank rank : apart)
    if (const auto index = static_cast<std::size_t>(rank.value); index < members.size())
      broken.insert(members[index].host->id);
  int count = 0;
  std::map<const MemberHost*, int> seen;  // most ranks are on one that was seen before
  std::map<std::string, int> by_id;
  std::map<ProcessId, int> by_process;
  std::vector<int> hosts;
  for (const Member& member : members) {
    if (member.segment_bytes == 0) {
      hosts.push_back(count++);
    } else if (broken.contains(member.host->id)) {
      hosts.push_back(by_process.try_emplace(member.process, count).first->second);
    } else {
      const auto [found, first] = seen.try_emplace(member.host.get(), 0);
      if (first) found->second = by_id.try_emplace(member.host->id, count).first->second;
      hosts.push_back(found->second);
    }
    count = std::max(count, hosts.back() + 1);
  }
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

int ranks_of_same_boot(const MemberHost& self, const std::vector<Member>& members) {
  if (self.boot_id == 0) return 1;
  return static_cast<int>(std::count_if(
      members.begin(), members.end(), [&self](const Member& member) { return member.host->boot_id == self.boot_id; }));
}

int cores_of_same_boot(Rank rank, const std::vector<Member>& members) {
  const MemberHost& self = *members[static_cast<std::size_t>(rank.value)].host;
  std::vector<std::string_view> lists;
  std::size_t own = 0;
  for (const Member& member : members) {
    if (member.rank != rank && (member.host->boot_id != self.boot_id || self.boot_id == 0)) continue;
    if (member.rank == rank) own = lists.size();
    lists.push_back(member.host->cores);
  }
  return std::max(1, cores_among(lists, own));
}

int ranks_per_core_of(const std::vector<Member>& members) {
  const std::uint64_t boot_id = members[0].host->boot_id;
  std::vector<std::string_view> lists;
  for (const Member& member : members) {
    if (member.host->cores.empty() || boot_id == 0 || member.host->boot_id != boot_id) return 1;
    lists.push_back(member.host->cores);
  }
  const auto cores = static_cast<std::size_t>(std::max(1, cores_among(lists, 0)));
  return static_cast<int>(div_up(members.size(), cores));
}

}  // namespace tutti
