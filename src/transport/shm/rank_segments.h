// The shared memory of ranks: of those whose memory a process maps, which are few of many.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/units.h"
#include "transport/shm/segment.h"

namespace tutti {

/// A plain value. Copies share the segments.
class RankSegments {
 public:
  /// Takes the memory of a rank higher than those that it has.
  void add(Rank rank, std::shared_ptr<Segment> segment) { segments_.emplace_back(rank, std::move(segment)); }
  /// Returns nullptr if it does not have the rank's memory.
  std::shared_ptr<Segment> of(Rank rank) const {
    const auto found = std::lower_bound(segments_.begin(), segments_.end(), rank,
                                        [](const Item& item, Rank wanted) { return item.first < wanted; });
    return found != segments_.end() && found->first == rank ? found->second : nullptr;
  }
  /// Lets go of the memory of all ranks of which `keeps` is false.
  template <class Keeps>
  void keep_only(const Keeps& keeps) {
    std::erase_if(segments_, [&](const Item& item) { return !keeps(item.first); });
  }

 private:
  using Item = std::pair<Rank, std::shared_ptr<Segment>>;
  std::vector<Item> segments_;  // by rank, ascending
};

}  // namespace tutti
