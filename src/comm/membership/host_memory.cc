#include "comm/membership/host_memory.h"

#include <algorithm>
#include <utility>

namespace tutti {
namespace {

/// With this alignment no huge page holds memory of two ranks.
constexpr std::size_t kAlign = 2 * 1024 * 1024;

}  // namespace

HostMemory::HostMemory(const MemberList& members, std::vector<Rank> ranks) {
  std::sort(ranks.begin(), ranks.end());
  for (const Rank rank : ranks) {
    const std::size_t bytes = members.segment_bytes(rank);
    if (bytes == 0) continue;
    parts_.push_back(Part{rank, Bytes{parts_.size() * Segment::kFrontBytes.value}, Bytes{0}, Bytes{bytes}});
  }
  std::size_t end = parts_.size() * Segment::kFrontBytes.value;
  for (Part& part : parts_) {
    part.offset = Bytes{round_up(end, kAlign)};
    end = part.offset.value + part.bytes.value;
  }
  size_ = Bytes{round_up(end, kAlign)};
}

HostMemory HostMemory::of_host(const MemberList& members, const ProcessOrder& order, std::size_t place) {
  std::vector<Rank> ranks;
  for (std::size_t i = order[place].host_first; i < order[place].host_end; ++i)
    ranks.insert(ranks.end(), order[i].ranks.begin(), order[i].ranks.end());
  return HostMemory(members, std::move(ranks));
}

RankSegments HostMemory::parts_of(const std::shared_ptr<Segment>& whole) const {
  RankSegments segments;
  for (const Part& part : parts_) segments.add(part.rank, Segment::part(whole, part.front, part.offset, part.bytes));
  return segments;
}

}  // namespace tutti
