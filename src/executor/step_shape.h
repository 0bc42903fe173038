// A StepShape holds what does not change for a step from one tile of a call to the next: the ranks that it receives
// from, and where its chunks lie in the buffers.
// For host and device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "executor/chunk_runs.h"
#include "schedule/binding.h"
#include "schedule/peer_list.h"

namespace tutti {

/// A shape takes hundreds of instructions to find. So the host finds those of a short program for the kernel; the
/// shapes of a long one are found in the kernel, by a thread each, before the first step. Plain data.
struct StepShape {
  /// The step's chunks that lie together in a tile, from the first on.
  struct Chunks {
    std::byte* source = nullptr;
    std::byte* destination = nullptr;
    std::size_t count = 0;  ///< elements
    std::uint32_t together = 1;
  };
  /// Ranks that the step receives from, if they are a set: `first`, `first` + `distance`, ...
  struct Senders {
    std::int32_t count = 0;
    std::int32_t first = 0;
    std::int32_t distance = 1;
    std::int32_t own = 0;  ///< where the rank itself stands among them

    TUTTI_HD std::int32_t operator[](std::int32_t i) const { return first + i * distance; }
  };

  Step step;
  Senders senders;
  std::uint32_t end = 1;  ///< how many chunks the step has; 1 if all lie together
  std::size_t block = 0;  ///< ragged: elements of the step's block
  Chunks first;           ///< in the first of several tiles, and in all tiles of a ragged block
  Chunks last;            ///< in the last tile

  /// Finds all but `step`. `binding` is the call's, which has `tiles` tiles. Ranks on devices know no hosts.
  TUTTI_HD TUTTI_APART void find(const Binding& binding, std::size_t tiles, std::int32_t ranks, std::int32_t rank) {
    const PeerList list = senders_of(Shape{ranks, rank, 0, 1, nullptr}, step);
    senders = Senders{list.count, list.first, list.distance, list.own};
    end = binding.is_one_range(step) ? 1 : step.span.count;
    block = binding.is_ragged ? binding.ragged.block_count(step) : 0;
    if (binding.is_ragged || tiles > 1) find_chunks(binding, 0, &first);
    if (!binding.is_ragged) find_chunks(binding, tiles - 1, &last);
  }

 private:
  TUTTI_HD TUTTI_APART void find_chunks(const Binding& binding, std::size_t tile, Chunks* chunks) const {
    const ChunkRun run = run_from(binding, step, 0, end, tile);
    *chunks = Chunks{run.first.source, run.first.destination, run.count.value, run.chunks};
    if (end == 1 && !binding.is_ragged) chunks->count = binding.elements(step, tile).value;
  }
};
static_assert(std::is_trivially_copyable_v<StepShape> && sizeof(StepShape) == 128);

}  // namespace tutti
