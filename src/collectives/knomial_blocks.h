// k-nomial trees (knomial.h) for gather and scatter: a rank collects the blocks of the ranks below it in scratch and
// sends them up in one message, or gets them in one and hands parts of it down (Thakur, Rabenseifner, Gropp 2005, for
// k = 2). Depth ceil(log_k n), at most (k-1) ceil(log_k n) messages read or written by the root, against n-1 of all
// pairs; (n-1)S bytes at the root either way, and a block of the deepest rank travels ceil(log_k n) times: for small
// blocks and many ranks.
#pragma once

#include "collectives/knomial.h"
#include "schedule/generator.h"
#include "schedule/step_builder.h"

namespace tutti::knomial {

/// Blocks of the largest message: those of the root's largest child.
template <std::int32_t kRadix>
TUTTI_HD constexpr std::uint32_t message_blocks(const Shape& s) {
  std::int32_t most = 1;
  for (std::int32_t child = 0; child < children_of<kRadix>(s, 0); ++child) {
    const std::int32_t blocks = places_below(s, 0, edge<kRadix>(s, 0, child));
    most = blocks > most ? blocks : most;
  }
  return static_cast<std::uint32_t>(most);
}
/// Blocks of this rank's message up or down: its own and those below it.
template <std::int32_t kRadix>
TUTTI_HD constexpr std::int32_t blocks_below(const Shape& s) {
  const std::int32_t place = place_of(s);
  if (place == 0) return s.ranks;
  std::int32_t power = 1;
  while (place / power % kRadix == 0) power *= kRadix;
  return s.ranks - place < power ? s.ranks - place : power;
}
/// Chunks in scratch: all blocks of the message, where there are several.
template <std::int32_t kRadix>
TUTTI_HD constexpr std::uint32_t kept_blocks(const Shape& s) {
  const std::int32_t blocks = s.rank == s.root ? 0 : blocks_below<kRadix>(s);
  return blocks > 1 ? static_cast<std::uint32_t>(s.lanes * blocks) : 0;
}

TUTTI_HD constexpr std::uint32_t block_chunk(const Shape& s, std::uint32_t lane, std::int32_t distance) {
  return static_cast<std::uint32_t>(wrap(s.rank + distance, s.ranks) * s.lanes) + lane;
}

/// The own block, one step a child, and the message up or down, where it is not the own block alone.
template <std::int32_t kRadix>
TUTTI_HD constexpr std::uint32_t block_steps(const Shape& s) {
  const auto children = static_cast<std::uint32_t>(children_of<kRadix>(s, place_of(s)));
  return 1 + children + (s.rank != s.root && children > 0 ? 1 : 0);
}

/// A rank's place in the tree, and where it keeps the blocks of those below it: the root in the buffer of the
/// collective that has all blocks, the others in scratch.
struct Keeper {
  std::int32_t place = 0;
  bool root = false;
  std::int32_t children = 0;
  std::int32_t blocks = 0;  ///< its own and those below
  std::uint32_t own = 0;    ///< chunk
  std::uint32_t kept = 0;   ///< first chunk in scratch
  BufferId buffer = BufferId::kScratch;
};
template <std::int32_t kRadix>
TUTTI_HD constexpr Keeper keeper_of(const Shape& s, std::uint32_t lane, BufferId at_root) {
  const std::int32_t place = place_of(s);
  const std::int32_t blocks = blocks_below<kRadix>(s);
  return Keeper{place,
                place == 0,
                children_of<kRadix>(s, place),
                blocks,
                block_chunk(s, lane, 0),
                lane * static_cast<std::uint32_t>(blocks),
                place == 0 ? at_root : BufferId::kScratch};
}
/// Where it keeps the blocks from `distance` on; `first` is their chunk.
TUTTI_HD constexpr std::uint32_t kept_chunk(const Keeper& self, std::uint32_t first, std::int32_t distance) {
  return self.root ? first : self.kept + static_cast<std::uint32_t>(distance);
}

template <std::int32_t kRadix>
TUTTI_HD constexpr Extent gather_extent(const Shape& s) {
  return Extent{static_cast<std::uint32_t>(s.lanes), 1, static_cast<std::uint32_t>(s.ranks), kept_blocks<kRadix>(s),
                message_blocks<kRadix>(s)};
}
template <std::int32_t kRadix>
TUTTI_HD constexpr Step gather_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const Keeper self = keeper_of<kRadix>(s, lane, BufferId::kOutput);
  auto at = static_cast<std::int32_t>(i);
  StepBuilder step(lane, self.own);
  if (at == 0) {
    step.take(BufferId::kInput, lane);
    if (self.children == 0) return step.send(parent<kRadix>(s)).step();
    return step.store(self.buffer, kept_chunk(self, self.own, 0)).step();
  }
  if (--at == self.children) return step.take(self.buffer, self.kept).span(self.blocks).send(parent<kRadix>(s)).step();
  const Edge from = edge<kRadix>(s, self.place, at);
  const std::uint32_t first = block_chunk(s, lane, from.distance);
  StepBuilder collects(lane, first);
  collects.recv(child(s, from)).span(places_below(s, self.place, from));
  return collects.store(self.buffer, kept_chunk(self, first, from.distance)).step();
}

template <std::int32_t kRadix>
TUTTI_HD constexpr Extent scatter_extent(const Shape& s) {
  return Extent{static_cast<std::uint32_t>(s.lanes), static_cast<std::uint32_t>(s.ranks), 1, kept_blocks<kRadix>(s),
                message_blocks<kRadix>(s)};
}
/// The gather backwards: the deepest child is served first, the own block comes last.
template <std::int32_t kRadix>
TUTTI_HD constexpr Step scatter_step(const Shape& s, std::uint32_t lane, std::uint32_t i) {
  if (s.ranks == 1) return copy_step(lane);
  const Keeper self = keeper_of<kRadix>(s, lane, BufferId::kInput);
  auto at = static_cast<std::int32_t>(i);
  StepBuilder step(lane, self.own);
  if (!self.root && at == 0) {
    step.recv(parent<kRadix>(s)).span(self.blocks);
    const bool leaf = self.children == 0;
    return leaf ? step.store(BufferId::kOutput, lane).step() : step.store(self.buffer, self.kept).step();
  }
  at -= self.root ? 0 : 1;
  if (at == self.children) {
    return step.take(self.buffer, kept_chunk(self, self.own, 0)).store(BufferId::kOutput, lane).step();
  }
  const Edge to = edge<kRadix>(s, self.place, self.children - 1 - at);
  const std::uint32_t first = block_chunk(s, lane, to.distance);
  StepBuilder serves(lane, first);
  serves.take(self.buffer, kept_chunk(self, first, to.distance)).span(places_below(s, self.place, to));
  return serves.send(child(s, to)).step();
}

template <std::int32_t kRadix>
constexpr Algorithm gather(const char* name) {
  return Algorithm{.name = name,
                   .collective = Collective::kGather,
                   .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kEqual},
                   .max_lanes = 32,
                   .steps = block_steps<kRadix>,
                   .extent = gather_extent<kRadix>,
                   .step = gather_step<kRadix>};
}
template <std::int32_t kRadix>
constexpr Algorithm scatter(const char* name) {
  return Algorithm{.name = name,
                   .collective = Collective::kScatter,
                   .promises = {Reduces::kNothing, ByReference::kAlways, BlockSizes::kEqual},
                   .max_lanes = 32,
                   .steps = block_steps<kRadix>,
                   .extent = scatter_extent<kRadix>,
                   .step = scatter_step<kRadix>};
}

inline constexpr Algorithm kGather2 = gather<2>("tree");
inline constexpr Algorithm kGather4 = gather<4>("knomial_4");
inline constexpr Algorithm kScatter2 = scatter<2>("tree");
inline constexpr Algorithm kScatter4 = scatter<4>("knomial_4");

}  // namespace tutti::knomial
