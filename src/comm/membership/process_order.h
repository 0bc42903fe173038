// The order of a communicator's processes, and who of them is connected to whom.
//
// Equal on all ranks, because it follows from the table alone: hosts in the order of their lowest rank, the processes
// of a host next to each other. Up to `mesh` processes all are connected to all; more of them are each connected to
// those 1, 2, 4, 8, ... places before and after (the fingers of Chord: Stoica, Morris, Karger, Kaashoek, Balakrishnan,
// "Chord: a scalable peer-to-peer lookup service for internet applications", SIGCOMM 2001), 2 log2 n each. The edges
// of the binomial trees on which the table and the memory of a host travel are among these.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "comm/membership/messages.h"

namespace tutti {

/// Up to so many processes are a mesh, unless a join asks for another number.
inline constexpr std::size_t kMeshProcesses = 32;

class ProcessOrder {
 public:
  struct Place {
    ProcessId process{};
    std::vector<Rank> ranks;     ///< ascending
    std::size_t host_first = 0;  ///< of its host
    std::size_t host_end = 0;    ///< after the last of its host
  };

  /// `members`: by rank.
  ProcessOrder(const std::vector<Member>& members, std::size_t mesh);

  std::size_t size() const { return places_.size(); }
  const Place& operator[](std::size_t place) const { return places_[place]; }
  std::optional<std::size_t> find(const ProcessId& process) const;
  /// All are connected to all: nobody has to pass anything on.
  bool is_mesh() const { return places_.size() <= mesh_; }

  /// Who has the table before this one; nullopt: the first, who has it from the root.
  std::optional<std::size_t> parent(std::size_t place) const;
  /// Who has the memory of the host before this one; nullopt: the first of its host, who makes it.
  std::optional<std::size_t> host_parent(std::size_t place) const;
  /// Ascending; a is among those of b when b is among those of a.
  std::vector<std::size_t> neighbours(std::size_t place) const;
  /// Whom to be connected to when only those `present` are left: the first at or after each finger. Whoever is
  /// present can then reach all others that are. Ascending, not `place` itself.
  std::vector<std::size_t> fingers(std::size_t place, const std::vector<bool>& present) const;

 private:
  std::vector<Place> places_;
  std::map<ProcessId, std::size_t> by_process_;
  std::size_t mesh_;
};

}  // namespace tutti
