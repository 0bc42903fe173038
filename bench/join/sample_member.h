// Makes up ranks for the benches of joins: each describes itself as a process of its own, and all hosts have equally
// many of them.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "comm/messages/messages.h"

namespace tutti::bench {

inline Member sample_member(Rank rank, int ranks_of_host, const std::vector<IpAddress>& addresses) {
  const std::string host = "host" + std::to_string(rank.value / ranks_of_host);
  Member member;
  member.rank = rank;
  member.pid = static_cast<std::uint32_t>(rank.value) + 1;
  const std::uint64_t mixed = mix64(static_cast<std::uint64_t>(rank.value) + 1);  // ids are random numbers
  std::memcpy(member.process.data(), &mixed, sizeof mixed);
  std::memcpy(member.process.data() + sizeof mixed, &rank.value, sizeof rank.value);
  member.host =
      std::make_shared<const MemberHost>(MemberHost{.name = host, .id = host, .boot_id = 1, .addresses = addresses});
  member.resources = std::make_shared<const MemberResources>(MemberResources{.cores = "0-7", .segment_bytes = 1 << 21});
  member.port = 40000;
  return member;
}

inline TableMessage sample_table(int ranks, int ranks_of_host) {
  const std::vector<IpAddress> addresses(2);
  TableMessage table;
  for (Rank rank{0}; rank.value < ranks; ++rank) table.members.push_back(sample_member(rank, ranks_of_host, addresses));
  return table;
}

/// 127.0.0.`last`.
inline IpAddress loopback(int last) {
  IpAddress address;
  address.bytes = {std::byte{127}, std::byte{0}, std::byte{0}, static_cast<std::byte>(last)};
  return address;
}

inline JoinMessage sample_join(Rank rank, int ranks, int ranks_of_host, const std::vector<IpAddress>& addresses) {
  JoinMessage join;
  join.member = sample_member(rank, ranks_of_host, addresses);
  join.ranks = ranks;
  join.agreed = {{"TUTTI_TRANSPORT", "auto"},  {"TUTTI_ALGO", ""},          {"TUTTI_TILE_BYTES", "4194304"},
                 {"TUTTI_SHM_SLOTS", "16"},    {"TUTTI_TWO_LEVELS", "off"}, {"TUTTI_DETERMINISTIC", "0"},
                 {"TUTTI_SHM_SLOT_BYTES", ""}, {"wire type", "none"},       {"TUTTI_TLS", "off"},
                 {"TUTTI_CHECKSUM", "0"},      {"library version", "100"}};
  return join;
}

}  // namespace tutti::bench
