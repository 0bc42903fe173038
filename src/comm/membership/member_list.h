// The members of a communicator, by rank, as each process keeps them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/membership/compact_numbers.h"
#include "comm/messages/messages.h"

namespace tutti {

/// There may be a hundred thousand ranks, and each process knows all of them. So a rank takes 22 to 28 bytes, and what
/// several have in common is there once. It never changes, so any thread may read it.
class MemberList {
 public:
  /// `members`: by rank; their hosts and resources are compared by value.
  explicit MemberList(const std::vector<Member>& members);

  std::size_t size() const { return processes_.size(); }
  /// A copy, with a host and resources of its own.
  Member operator[](Rank rank) const;
  const ProcessId& process(Rank rank) const { return processes_[index(rank)]; }
  const MemberHost& host(Rank rank) const { return hosts_[host_number(rank)]; }
  /// A number that is the same for ranks whose MemberHost is equal; below hosts(), in the order of their first ranks.
  std::size_t host_number(Rank rank) const { return host_numbers_[index(rank)]; }
  std::size_t hosts() const { return hosts_.size(); }
  const MemberHost& host_with_number(std::size_t number) const { return hosts_[number]; }
  std::uint64_t segment_bytes(Rank rank) const { return resources(rank).segment_bytes; }
  /// The cores that the rank's thread may use; empty if unknown.
  const std::string& cores(Rank rank) const { return resources(rank).cores; }
  /// Empty if it uses none.
  const std::string& device(Rank rank) const { return resources(rank).device; }

 private:
  static std::size_t index(Rank rank) { return static_cast<std::size_t>(rank.value); }
  const MemberResources& resources(Rank rank) const { return resources_[resource_numbers_[index(rank)]]; }

  // The first five are by rank. They are no list of structures, in which a rank would take more for alignment.
  std::vector<ProcessId> processes_;
  std::vector<std::uint32_t> pids_;
  std::vector<std::uint16_t> ports_;
  CompactNumbers host_numbers_;
  CompactNumbers resource_numbers_;
  std::vector<MemberHost> hosts_;
  std::vector<MemberResources> resources_;
};

}  // namespace tutti
