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

#include "comm/messages/messages.h"

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

  /// `members`: by rank. They stay in place for as long as the order is used.
  ProcessOrder(std::span<const Member> members, std::size_t mesh);
  ProcessOrder(std::vector<Member>&& members, std::size_t mesh) = delete;  // it would not outlive the call
  ProcessOrder(const ProcessOrder&) = delete;                              // a Place refers to its ranks
  ProcessOrder& operator=(const ProcessOrder&) = delete;

  std::size_t size() const { return hosts_.size(); }
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
  using Index = std::uint32_t;  // every process keeps these for all others, so they are small
  const Member& member(Rank rank) const { return members_[static_cast<std::size_t>(rank.value)]; }
  const ProcessId& process(std::size_t place) const { return member(ranks_[first_ranks_[place]]).process; }

  std::span<const Member> members_;
  std::size_t mesh_;
  std::vector<Rank> ranks_;         // in the order of their places
  std::vector<Index> first_ranks_;  // by place: where its ranks begin, and at the end how many ranks there are
  std::vector<Index> hosts_;        // by place: the number of its host
  std::vector<Index> host_firsts_;  // by host: its first place, and at the end how many places there are
  std::vector<Index> by_process_;   // the places, in the order of the processes' ids
};

}  // namespace tutti
