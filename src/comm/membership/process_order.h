// The order of a communicator's processes, and which of them are connected to each other.
//
// It is equal on all ranks, because it follows from the table alone: hosts come in the order of their lowest rank, with
// the processes of a host next to each other. If there are at most `mesh` processes, all are connected to all. If there
// are more, each is connected to those 1, 2, 4, 8, ... places before and after it (the fingers of Chord: Stoica,
// Morris, Karger, Kaashoek, Balakrishnan, "Chord: a scalable peer-to-peer lookup service for internet applications",
// SIGCOMM 2001), which are at most 2 log2 n. The edges of the binomial trees on which the table and the memory of a
// host travel are among these connections.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comm/membership/member_list.h"

namespace tutti {

/// Up to so many processes are a mesh, unless a join asks for another number.
inline constexpr std::size_t kMeshProcesses = 32;

class ProcessOrder {
 public:
  struct Place {
    ProcessId process{};
    std::span<const Rank> ranks;  ///< ascending
    std::size_t host_first = 0;   ///< the first place of its host
    std::size_t host_end = 0;     ///< the place after the last one of its host
  };

  /// `members` stay in place for as long as the order is used.
  ProcessOrder(const MemberList& members, std::size_t mesh);
  ProcessOrder(MemberList&& members, std::size_t mesh) = delete;  // it would not outlive the call
  ProcessOrder(const ProcessOrder&) = delete;                     // a Place refers to its ranks
  ProcessOrder& operator=(const ProcessOrder&) = delete;

  std::size_t size() const { return by_process_.size(); }
  Place operator[](std::size_t place) const;
  std::optional<std::size_t> find(const ProcessId& process) const;
  /// Whether all are connected to all, so that nobody has to pass anything on.
  bool is_mesh() const { return size() <= mesh_; }

  /// The process that passes the table on to this one; nullopt for the first, which has it from the root.
  std::optional<std::size_t> parent(std::size_t place) const;
  /// The processes that this one passes the table on to, ascending.
  std::vector<std::size_t> children(std::size_t place) const;
  /// The process that passes the memory of the host on to this one; nullopt for the first of its host, which makes it.
  std::optional<std::size_t> host_parent(std::size_t place) const;
  /// The places that this one is connected to in the join, ascending. If a is a neighbour of b, b is one of a.
  std::vector<std::size_t> neighbours(std::size_t place) const;
  /// The places to be connected to if only those `present` are left: the first one at or after each finger. So each
  /// that is present can reach all others that are. Ascending, without `place` itself.
  std::vector<std::size_t> fingers(std::size_t place, const std::vector<bool>& present) const;

 private:
  using Index = std::uint32_t;
  /// Where the ranks of a place begin in ranks_; of the place after the last one, how many ranks there are.
  std::size_t first_rank(std::size_t place) const { return first_ranks_.empty() ? place : first_ranks_[place]; }
  const ProcessId& process(std::size_t place) const { return members_.process(ranks_[first_rank(place)]); }
  /// The number of the host of a place.
  std::size_t host_of(std::size_t place) const;

  const MemberList& members_;
  std::size_t mesh_;
  std::vector<Rank> ranks_;         // in the order of their places
  std::vector<Index> first_ranks_;  // by place, and one more; empty if each process has one rank
  std::vector<Index> host_firsts_;  // by host: its first place, ascending, and at the end how many places there are
  CompactNumbers by_process_;       // the places, in the order of the processes' ids
};

}  // namespace tutti
