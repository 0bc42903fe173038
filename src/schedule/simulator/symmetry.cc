// Which ranks stand for others.
#include <algorithm>

#include "schedule/simulator/simulator.h"

namespace tutti {
namespace {

/// Steps that are compared at most; of longer programs, every so many-th.
constexpr std::uint64_t kCompared = 2'000'000;
/// Fewer ranks than this are simulated one by one: looking for a symmetry would cost more than it saves.
constexpr std::int32_t kFewRanks = 16;

/// Ranks that share what is not shared with others: a host, or a leaf; 0: all of them, or no regular groups.
std::int32_t group_of(const Shape& shape, const Network& network) {
  std::int32_t each = 1;
  if (!network.slow_hosts.empty() || !network.tree.places.empty()) return 0;
  if (shape.hosts != nullptr) {
    const HostMap& map = *shape.hosts;
    each = map.most;
    if (map.has_lists()) return 0;
  } else if (!network.tcp) {
    return 0;
  }
  const std::int32_t group = each * std::max(network.tree.hosts_per_leaf, 1);
  return group < shape.ranks && shape.ranks % group == 0 ? group : 0;
}

/// Whether the step of a rank is that of another one `turn` ranks further on. Which chunk it is does not matter.
bool is_turned(const Step& one, const Step& other, std::int32_t turn, std::int32_t ranks) {
  const auto turned = [&](std::int32_t peer) { return (peer + turn) % ranks; };
  // Hosts further on meet in groups that do not begin where this one's would.
  if (one.recv_from == PeerSet::kGroup) return false;
  return one.verbs == other.verbs && one.recv_from == other.recv_from && one.send_to == other.send_to &&
         one.is(kMulticastRecv) == other.is(kMulticastRecv) && one.src_buffer == other.src_buffer &&
         one.dst_buffer == other.dst_buffer && one.span.count == other.span.count &&
         (one.recv_from != PeerSet::kOne || turned(one.recv_peer) == other.recv_peer) &&
         (one.send_to != PeerSet::kOne || turned(one.send_peer) == other.send_peer);
}

/// Whether the program of a rank is that of another one.
bool is_turned(const Algorithm& algorithm, Shape shape, std::int32_t rank, std::int32_t turn, std::uint32_t stride) {
  Shape other = shape;
  shape.rank = rank;
  other.rank = (rank + turn) % shape.ranks;
  const std::uint32_t steps = algorithm.steps(shape);
  if (algorithm.steps(other) != steps || steps == 0) return false;
  for (std::uint32_t lane = 0; lane < static_cast<std::uint32_t>(shape.lanes); ++lane) {
    for (std::uint32_t next = 0; next < steps + stride - 1; next += stride) {
      const std::uint32_t i = std::min(next, steps - 1);
      if (!is_turned(algorithm.step(shape, lane, i), algorithm.step(other, lane, i), turn, shape.ranks)) return false;
    }
  }
  return true;
}

}  // namespace

std::int32_t symmetry_period(const Algorithm& algorithm, const Shape& shape, const Network& network) {
  const std::int32_t ranks = shape.ranks;
  if (ranks < kFewRanks || is_rooted(algorithm.collective) || network.same_boot_id) return ranks;
  const std::int32_t group = group_of(shape, network);
  if (group == 0) return ranks;
  Shape first = shape;
  first.rank = 0;
  const std::uint64_t steps = std::uint64_t{algorithm.steps(first)} * static_cast<std::uint64_t>(shape.lanes) *
                              static_cast<std::uint64_t>(group);
  const auto stride = static_cast<std::uint32_t>(1 + steps / kCompared);
  const std::int32_t groups = ranks / group;
  for (const std::int32_t place : {1, groups / 2, groups / 2 + 1, groups - 1}) {
    for (std::int32_t rank = 0; rank < group; ++rank) {
      if (!is_turned(algorithm, shape, rank, place * group % ranks, stride)) return ranks;
    }
  }
  return group;
}

}  // namespace tutti
