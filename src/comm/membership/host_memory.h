// Host memory is one segment for all ranks of a host. The first of the host's processes makes it, and it is passed on
// from process to process. Each process maps it with one call and one descriptor, however many ranks there are.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "comm/membership/process_order.h"
#include "comm/messages/messages.h"
#include "transport/shm/rank_segments.h"

namespace tutti {

/// Where in the host's segment each rank's memory lies. All processes that ask for the same ranks get the same answer.
class HostMemory {
 public:
  /// The memory of these ranks: the fronts of all, then the rest of each, at a multiple of the size of a huge page.
  HostMemory(const MemberList& members, std::vector<Rank> ranks);
  /// The memory of all ranks of the host that the process at `place` is on.
  static HostMemory of_host(const MemberList& members, const ProcessOrder& order, std::size_t place);

  /// The size is 0 if none of the ranks has memory.
  Bytes size() const { return size_; }
  /// The part of each rank that has memory.
  RankSegments parts_of(const std::shared_ptr<Segment>& whole) const;

 private:
  struct Part {
    Rank rank = kNoRank;
    Bytes front{0};
    Bytes offset{0};
    Bytes bytes{0};
  };
  std::vector<Part> parts_;
  Bytes size_{0};
};

}  // namespace tutti
