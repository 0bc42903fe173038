// The members of a communicator, by rank, as each process keeps them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/messages/messages.h"

namespace tutti {

/// There may be thousands of ranks, and each process knows all of them, so a rank takes 28 bytes, and what several have
/// in common is there once. It never changes, so any thread may read it.
class MemberList {
 public:
  /// `members`: by rank; their hosts and devices are compared by value.
  explicit MemberList(const std::vector<Member>& members);

  std::size_t size() const { return entries_.size(); }
  /// A copy, with a host of its own.
  Member operator[](Rank rank) const;
  const ProcessId& process(Rank rank) const { return entry(rank).process; }
  const MemberHost& host(Rank rank) const { return hosts_[entry(rank).host]; }
  /// A number that is the same for ranks whose MemberHost is equal; below hosts(), in the order of their first ranks.
  std::size_t host_number(Rank rank) const { return entry(rank).host; }
  std::size_t hosts() const { return hosts_.size(); }
  const MemberHost& host_with_number(std::size_t number) const { return hosts_[number]; }
  std::uint64_t segment_bytes(Rank rank) const { return segment_bytes_[entry(rank).segment]; }
  /// Empty if it uses none.
  const std::string& device(Rank rank) const { return devices_[entry(rank).device]; }

 private:
  using Place = std::uint16_t;  // in a list that has at most one value for each rank
  static_assert(kMaxRanks <= 65536);
  struct Entry {
    ProcessId process;
    std::uint32_t pid;
    Place host;
    Place device;
    Place segment;
    std::uint16_t port;
  };
  static_assert(sizeof(Entry) == 28);

  const Entry& entry(Rank rank) const { return entries_[static_cast<std::size_t>(rank.value)]; }

  std::vector<Entry> entries_;
  std::vector<MemberHost> hosts_;
  std::vector<std::string> devices_;
  std::vector<std::uint64_t> segment_bytes_;
};

}  // namespace tutti
