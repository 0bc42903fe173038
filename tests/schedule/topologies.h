// Topologies for tests: all of a few ranks, regular ones, random ones.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace tutti {

/// By rank, its host.
using HostList = std::vector<int>;

/// Every way to put n ranks on hosts, hosts numbered in order of their first ranks (Bell(n) of them).
inline void for_each_partition(int n, const std::function<void(const HostList&)>& visit, HostList hosts = {}) {
  if (static_cast<int>(hosts.size()) == n) return visit(hosts);
  const int known = hosts.empty() ? 0 : *std::ranges::max_element(hosts) + 1;
  for (int host = 0; host <= known; ++host) {
    hosts.push_back(host);
    for_each_partition(n, visit, hosts);
    hosts.pop_back();
  }
}

/// `each` ranks on each of `hosts` hosts: host after host, or dealt out in turn.
inline HostList uniform_hosts(int hosts, int each, bool dealt) {
  HostList list;
  for (int rank = 0; rank < hosts * each; ++rank) list.push_back(dealt ? rank % hosts : rank / each);
  return list;
}

inline HostList random_hosts(int n, std::mt19937& random) {
  const unsigned hosts = 1 + random() % static_cast<unsigned>(std::min(n, 12));
  HostList list;
  for (int rank = 0; rank < n; ++rank) list.push_back(static_cast<int>(random() % hosts));
  return list;
}

inline std::string to_text(const HostList& hosts) {
  std::string text = "hosts";
  for (const int host : hosts) text.append(1, ' ').append(std::to_string(host));
  return text;
}

}  // namespace tutti
