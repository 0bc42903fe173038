// The finalize tree counts who has come to Finalize.
//
// If each of n processes let all others know that its ranks have come, each would apply n events. Instead each sends a
// message to its parent once all below it have come, and once the first process has that from all its children, it says
// so for all. These are the arrivals of a tree barrier (Mellor-Crummey, Scott, "Algorithms for scalable synchronization
// on shared-memory multiprocessors", ACM TOCS 9(1), 1991) on the tree on which the table travels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>

#include "comm/membership/process_order.h"
#include "core/units.h"

namespace tutti {

/// Counts for one process. All functions are called in the loop's thread.
class FinalizeTree {
 public:
  /// `self` is the place of this process.
  FinalizeTree(const ProcessOrder& order, std::size_t self) {
    late_ranks_.insert(order[self].ranks.begin(), order[self].ranks.end());
    for (const std::size_t child : order.children(self)) late_children_.insert(child);
  }

  /// A rank of this process has come, with this number as that of its Finalize. Returns false if that was known.
  bool come(Rank rank, std::uint64_t sequence) {
    if (late_ranks_.erase(rank) == 0) return false;
    note(sequence);
    return true;
  }
  /// All ranks of that child and below it have come. Returns false if that was known, or it is no child.
  bool come_below(std::size_t child, std::uint64_t sequence) {
    if (late_children_.erase(child) == 0) return false;
    note(sequence);
    return true;
  }
  /// The number with which all ranks of this process and below it have come; 0 as long as some have not, and for ever
  /// if their numbers differ.
  std::uint64_t complete() const { return late_ranks_.empty() && late_children_.empty() && agree_ ? sequence_ : 0; }

  /// The number with which all ranks of the communicator have come; 0 as long as that is not known here.
  std::uint64_t all() const { return all_; }
  /// Returns false if that was known.
  bool set_all(std::uint64_t sequence) { return std::exchange(all_, sequence) == 0; }

 private:
  void note(std::uint64_t sequence) {
    agree_ = agree_ && (sequence_ == 0 || sequence_ == sequence);
    sequence_ = sequence;
  }

  std::set<Rank> late_ranks_;
  std::set<std::size_t> late_children_;
  std::uint64_t sequence_ = 0;
  bool agree_ = true;
  std::uint64_t all_ = 0;
};

}  // namespace tutti
