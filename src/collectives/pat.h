// PAT, parallel aggregated trees: reduce-scatter and all-gather for many ranks, as NCCL 2.23 has them (Jeaugey 2024,
// "PAT: a new algorithm for all-gather and reduce-scatter operations at scale"). Every block has a binomial tree of its
// own, turned by its rank: on its way from j below its rank to there, a block goes up by the lowest bit of j first. So
// most of the traffic is between near neighbours, and the far hops carry least: the other way around than in Bruck's
// all-gather and recursive halving, which send half of the data to the farthest. Trees of kGroup neighbouring blocks go
// together, so that a message carries up to kGroup/2 chunks; a group's last block then goes on by itself through the
// far hops. Groups follow one another: their memory is one group's, and far hops of one overlap near ones of the next.
//
// Up to kGroup ranks: ceil(log2 n) rounds and messages, (n-1)S bytes a rank. More: ceil(n/kGroup) (log2 kGroup + 1)
// messages or so, and the depth log2 kGroup + ceil(n/kGroup) or so, or that of the far hops.
//
//   reduce-scatter   from the last group to the first, near hops first. What a rank has added up before the hop of
//                    distance d comes from the d ranks up to it, and what arrives from the d ranks below these, so the
//                    own operand is the left one only where it holds rank 0.
//   all-gather       the same backwards: from the first group to the last, far hops first
//
// `tutti-plan reduce_scatter --ranks 6 --algo pat --grid` (drawing.h says how to read it):
//
//   rank 0   1x3 >1   <5 +0x3=   2 >2   <4 +0=   4 >4   <2 +0=
//   rank 1   2x3 >2   <0 +1x3=   3 >3   <5 +1=   5 >5   <3 +1=
//   rank 2   3x3 >3   <1 +2x3=   4 >4   <0 +2=   0 >0   <4 +2=
//   rank 3   4x3 >4   <2 +3x3=   5 >5   <1 +3=   1 >1   <5 +3=
//   rank 4   5x3 >5   <3 +4x3=   0 >0   <2 +4=   2 >2   <0 +4=
//   rank 5   0x3 >0   <4 +5x3=   1 >1   <3 +5=   3 >3   <1 +5=
#pragma once

#include "collectives/rank_circle.h"
#include "schedule/generator.h"
#include "schedule/step_builder.h"

namespace tutti::pat {

/// Blocks of a group: 2^kGroupBits.
inline constexpr std::int32_t kGroupBits = 6;
inline constexpr std::int32_t kGroup = 1 << kGroupBits;

/// The blocks at distances `base` .. base + blocks - 1 from the rank's own.
struct Group {
  std::int32_t base = 0;
  std::int32_t blocks = 0;
};
TUTTI_HD constexpr std::int32_t groups_of(const Shape& s) { return (s.ranks + kGroup - 1) / kGroup; }
TUTTI_HD constexpr Group group_at(const Shape& s, std::int32_t number) {
  const std::int32_t left = s.ranks - number * kGroup;
  return Group{number * kGroup, left < kGroup ? left : kGroup};
}

/// Near hops of a group, one a bit below its length.
TUTTI_HD constexpr std::int32_t near_hops(const Group& group) { return ceil_log2(group.blocks); }
/// Blocks that go together in the near hop of distance 2^hop: odd multiples of it.
TUTTI_HD constexpr std::int32_t near_blocks(const Group& group, std::int32_t hop) {
  return (group.blocks - 1 - (1 << hop)) / (2 << hop) + 1;
}
/// Far hops by which the group's first block reaches this rank (or leaves it, in an all-gather): one a trailing zero of
/// the group's number, as long as there are such ranks.
TUTTI_HD constexpr std::int32_t far_hops(const Shape& s, const Group& group) {
  std::int32_t hops = 0;
  for (std::int32_t distance = kGroup; distance < s.ranks - group.base && (group.base & distance) == 0; distance *= 2) {
    ++hops;
  }
  return hops;
}
/// The hop by which the first block of a group that is not the first one goes on.
TUTTI_HD constexpr std::int32_t next_hop(const Group& group) {
  const std::int32_t number = group.base / kGroup;
  return floor_log2(number & -number);
}

TUTTI_HD constexpr std::uint32_t chunk_of(const Shape& s, std::uint32_t lane, std::int32_t distance) {
  return static_cast<std::uint32_t>(wrap(s.rank + distance, s.ranks) * s.lanes) + lane;
}
TUTTI_HD constexpr std::int32_t rank_above(const Shape& s, std::int32_t distance) {
  return wrap(s.rank + distance, s.ranks);
}
TUTTI_HD constexpr std::int32_t rank_below(const Shape& s, std::int32_t distance) {
  return wrap(s.rank - distance, s.ranks);
}
TUTTI_HD constexpr std::int32_t longest_group(const Shape& s) { return s.ranks < kGroup ? s.ranks : kGroup; }
TUTTI_HD constexpr std::uint32_t message_chunks(const Shape& s) {
  return s.ranks < 2 ? 1 : static_cast<std::uint32_t>(longest_group(s) / 2);
}

/// ---- reduce-scatter ----

TUTTI_HD constexpr Extent reduce_scatter_extent(const Shape& s) {
  const auto lanes = static_cast<std::uint32_t>(s.lanes);
  const auto kept = static_cast<std::uint32_t>(s.ranks > 2 ? longest_group(s) : 0);
  return Extent{lanes, static_cast<std::uint32_t>(s.ranks), 1, lanes * kept, message_chunks(s)};
}

/// Whether the last block of a group, which has no partner in the nearest hop, has to be put beside the others.
TUTTI_HD constexpr bool has_odd_block(const Group& group) { return group.blocks > 1 && group.blocks % 2 == 1; }
TUTTI_HD constexpr std::int32_t reduce_steps(const Shape& s, const Group& group) {
  const std::int32_t far = far_hops(s, group);
  const std::int32_t sends_alone = group.base > 0 && far == 0 ? 1 : 0;
  return 2 * near_hops(group) + (has_odd_block(group) ? 1 : 0) + far + sends_alone;
}

TUTTI_HD constexpr std::uint32_t reduce_scatter_steps(const Shape& s) {
  if (s.ranks == 1) return 1;
  std::int32_t steps = 0;
  for (std::int32_t number = 0; number < groups_of(s); ++number) steps += reduce_steps(s, group_at(s, number));
  return static_cast<std::uint32_t>(steps);
}

/// Where this rank has its part of blocks of a group: in the input, until something was added.
struct Kept {
  BufferId buffer;
  std::uint32_t chunk;
};
TUTTI_HD constexpr Kept kept_at(const Shape& s, std::uint32_t lane, const Group& group, std::int32_t in_group,
                                bool fresh) {
  if (fresh) return Kept{BufferId::kInput, chunk_of(s, lane, group.base + in_group)};
  return Kept{BufferId::kScratch,
              lane * static_cast<std::uint32_t>(longest_group(s)) + static_cast<std::uint32_t>(in_group)};
}

/// A near hop: odd multiples of its distance go up, even ones are added to.
TUTTI_HD constexpr Step reduce_near(const Shape& s, std::uint32_t lane, const Group& group, std::int32_t hop,
                                    bool sends) {
  const std::int32_t distance = 1 << hop;
  const std::int32_t first = sends ? distance : 0;
  const Kept own = kept_at(s, lane, group, first, hop == 0);
  StepBuilder step(lane, chunk_of(s, lane, group.base + first));
  step.span(near_blocks(group, hop), hop + 1);
  if (sends) return step.take(own.buffer, own.chunk).send(rank_above(s, distance)).step();
  step.recv(rank_below(s, distance)).reduce(own.buffer, own.chunk, s.rank < distance);
  const bool last = group.base == 0 && 2 * distance >= s.ranks;
  if (last) return step.complete().store(BufferId::kOutput, lane).step();
  return step.store(BufferId::kScratch, kept_at(s, lane, group, 0, false).chunk).step();
}

/// The far hops of a group's first block: what arrives is added; the last one goes on.
TUTTI_HD constexpr Step reduce_far(const Shape& s, std::uint32_t lane, const Group& group, std::int32_t hop) {
  const Kept kept = kept_at(s, lane, group, 0, group.blocks == 1 && hop == 0);
  const std::int32_t hops = far_hops(s, group);
  StepBuilder step(lane, chunk_of(s, lane, group.base));
  if (hops == 0) {
    step.take(kept.buffer, kept.chunk);
  } else {
    const std::int32_t distance = kGroup << hop;
    step.recv(rank_below(s, distance)).reduce(kept.buffer, kept.chunk, s.rank < distance);
  }
  if (hop + 1 < hops) return step.store(BufferId::kScratch, kept_at(s, lane, group, 0, false).chunk).step();
  if (group.base > 0) return step.send(rank_above(s, kGroup << next_hop(group))).step();
  return step.complete().store(BufferId::kOutput, lane).step();
}

TUTTI_HD constexpr Step reduce_scatter_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  auto at = static_cast<std::int32_t>(i);
  std::int32_t number = groups_of(s) - 1;
  for (; at >= reduce_steps(s, group_at(s, number)); --number) at -= reduce_steps(s, group_at(s, number));
  const Group group = group_at(s, number);
  const std::int32_t odd = has_odd_block(group) ? 1 : 0;
  if (odd > 0 && at == 0) {
    const Kept from = kept_at(s, lane, group, group.blocks - 1, true);
    const std::uint32_t to = kept_at(s, lane, group, group.blocks - 1, false).chunk;
    return StepBuilder(lane, from.chunk).take(from.buffer, from.chunk).store(BufferId::kScratch, to).step();
  }
  at -= odd;
  if (at < 2 * near_hops(group)) return reduce_near(s, lane, group, at / 2, at % 2 == 0);
  return reduce_far(s, lane, group, at - 2 * near_hops(group));
}

/// ---- all-gather ----

TUTTI_HD constexpr Extent all_gather_extent(const Shape& s) {
  return Extent{static_cast<std::uint32_t>(s.lanes), 1, static_cast<std::uint32_t>(s.ranks), 0, message_chunks(s)};
}

/// The first block of a group has one step for its way here, with the first of its ways on, and one for each other.
TUTTI_HD constexpr std::int32_t first_steps(const Shape& s, const Group& group) {
  const std::int32_t far = far_hops(s, group);
  return far > 1 ? far : 1;
}
TUTTI_HD constexpr std::int32_t gather_steps(const Shape& s, const Group& group) {
  return first_steps(s, group) + 2 * near_hops(group);
}
TUTTI_HD constexpr std::uint32_t all_gather_steps(const Shape& s) {
  if (s.ranks == 1) return 1;
  std::int32_t steps = 0;
  for (std::int32_t number = 0; number < groups_of(s); ++number) steps += gather_steps(s, group_at(s, number));
  return static_cast<std::uint32_t>(steps);
}

TUTTI_HD constexpr Step gather_far(const Shape& s, std::uint32_t lane, const Group& group, std::int32_t at) {
  const std::uint32_t chunk = chunk_of(s, lane, group.base);
  StepBuilder step(lane, chunk);
  if (at > 0) {
    step.take(BufferId::kOutput, chunk);
  } else {
    group.base == 0 ? step.take(BufferId::kInput, lane) : step.recv(rank_above(s, kGroup << next_hop(group)));
    step.store(BufferId::kOutput, chunk);
  }
  const std::int32_t hop = far_hops(s, group) - 1 - at;
  if (hop >= 0) step.send(rank_below(s, kGroup << hop));
  return step.step();
}

TUTTI_HD constexpr Step all_gather_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  auto at = static_cast<std::int32_t>(i);
  std::int32_t number = 0;
  for (; at >= gather_steps(s, group_at(s, number)); ++number) at -= gather_steps(s, group_at(s, number));
  const Group group = group_at(s, number);
  if (at < first_steps(s, group)) return gather_far(s, lane, group, at);
  at -= first_steps(s, group);
  const std::int32_t hop = near_hops(group) - 1 - at / 2;
  const std::int32_t distance = 1 << hop;
  const bool sends = at % 2 == 0;
  const std::uint32_t chunk = chunk_of(s, lane, group.base + (sends ? 0 : distance));
  StepBuilder step(lane, chunk);
  step.span(near_blocks(group, hop), hop + 1);
  if (sends) return step.take(BufferId::kOutput, chunk).send(rank_below(s, distance)).step();
  return step.recv(rank_above(s, distance)).store(BufferId::kOutput, chunk).step();
}

inline constexpr Algorithm kReduceScatter{.name = "pat",
                                          .collective = Collective::kReduceScatter,
                                          .promises = {Reduces::kInOwnOrder, ByReference::kAlways, BlockSizes::kEqual},
                                          .max_lanes = 32,
                                          .steps = reduce_scatter_steps,
                                          .extent = reduce_scatter_extent,
                                          .step = reduce_scatter_step};
inline constexpr Algorithm kAllGather{.name = "pat",
                                      .collective = Collective::kAllGather,
                                      .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kEqual},
                                      .max_lanes = 32,
                                      .steps = all_gather_steps,
                                      .extent = all_gather_extent,
                                      .step = all_gather_step};

}  // namespace tutti::pat
