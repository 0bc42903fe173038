// The parameter of a kernel that runs a call: the program, the binding, the links, and where to report.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/fingerprint.h"
#include "executor/device/device_spin.h"
#include "executor/step_shape.h"
#include "schedule/binding.h"
#include "transport/device/device_link.h"

namespace tutti {

/// The shapes of so many steps, of all lanes, fit into the parameters. A program of no more steps needs no other
/// memory. The parameters stay below 4 KiB: with 5 KiB of them calls on a stream took a quarter longer. So the
/// exchanges of all pairs have up to 11 ranks and rings up to 12; longer programs are read from a table in device
/// memory.
inline constexpr std::uint32_t kInlineSteps = 23;

/// Plain data. Block b of a launch runs lane b mod lanes of the schedule on tile b / lanes and every `stripes`th after
/// it. Tiles share no memory but scratch, and each block has scratch of its own.
struct DeviceCall {
  DeviceLinks links;
  DeviceWatch watch;
  Binding binding;
  std::size_t scratch_stride = 0;  ///< in bytes, from one block's scratch to the next one's
  Fingerprint fingerprint = 0;
  std::uint64_t number = 0;          ///< the blocks report their ends under it; 0 if nobody looks, as in a graph
  DataType type = DataType::kUint8;  ///< of reductions
  RedOp op = RedOp::kSum;
  std::int32_t ranks = 1;
  std::uint32_t lanes = 1;
  std::uint32_t stripes = 1;
  std::uint32_t steps_per_lane = 0;
  std::uint32_t divisor = 1;          ///< what Avg divides by, at the complete step
  bool tree_order = false;            ///< sources are combined in the deterministic mode's order
  bool lends = false;                 ///< large messages may stay in the caller's buffers: is_reference_safe()
  LentBuffer lent[2];                 ///< among several processes, the parts of the buffers where they may stay
  bool alone_reduces = false;         ///< there is one rank, and its reduction is more than a copy: bool becomes 0 or 1
  const Step* table = nullptr;        ///< the program in device memory; nullptr if it is in `shapes`
  StepShape* found_shapes = nullptr;  ///< device memory for the shapes of such a program, for each block
  // Ragged calls have a tile, and counts and offsets of the input's blocks and of the output's. The kernel makes the
  // binding's view of them, because it holds addresses.
  Elems tile;
  std::size_t blocks[4][kMaxDeviceRanks] = {};
  std::uint32_t input_blocks = 0;
  std::uint32_t output_blocks = 0;
  StepShape shapes[kInlineSteps];  ///< of a short program; scratch is that of block 0

  /// The LentPlace of what lies in the caller's buffers, or 0 if not all peers can read it there.
  TUTTI_HD std::uint64_t place_of(const std::byte* memory) const {
    if (links.single_process) return reinterpret_cast<std::uintptr_t>(memory);
    for (const LentBuffer& buffer : lent)
      if (buffer.holds(memory)) return buffer.place + static_cast<std::uint64_t>(memory - buffer.begin);
    return 0;
  }

  /// The tiling of a ragged call, a view of this.
  TUTTI_HD RaggedTiling ragged() const {
    const BlockTable input{blocks[0], blocks[1], input_blocks};
    const BlockTable output{blocks[2], blocks[3], output_blocks};
    return RaggedTiling(input, output, tile);
  }

  TUTTI_HD std::uint32_t grid() const { return lanes * stripes; }
};
static_assert(std::is_trivially_copyable_v<DeviceCall>);
static_assert(sizeof(DeviceCall) <= 4096);

}  // namespace tutti
