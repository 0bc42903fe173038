// A call as a kernel gets it: the program, the binding, the links and whom to tell, in kernel parameters.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/fingerprint.h"
#include "executor/device/device_spin.h"
#include "schedule/binding.h"
#include "schedule/peer_list.h"
#include "transport/device/device_link.h"

namespace tutti {

/// Steps of all lanes that travel in the parameters: what is launched needs no other memory then, and parameters stay
/// below 4 KiB, which every launch copies. Enough for every algorithm of up to 16 ranks but a few of those that spread
/// over several rounds; longer programs are read from a table in device memory.
inline constexpr std::uint32_t kInlineSteps = 64;

/// Plain data. Of the blocks of a launch, block b runs lane b mod lanes of the schedule, on the tiles b / lanes, that
/// plus `stripes`, and so on: tiles share no memory but scratch, and each block has scratch of its own.
struct DeviceCall {
  DeviceLinks links;
  DeviceWatch watch;
  Binding binding;
  std::size_t scratch_stride = 0;  ///< bytes from one block's scratch to the next one's
  Fingerprint fingerprint = 0;
  DataType type = DataType::kUint8;  ///< of reductions
  RedOp op = RedOp::kSum;
  std::int32_t ranks = 1;
  std::uint32_t lanes = 1;
  std::uint32_t stripes = 1;
  std::uint32_t steps_per_lane = 0;
  std::uint32_t divisor = 1;    ///< what Avg divides by, at the complete step
  bool tree_order = false;      ///< sources are combined in the deterministic mode's order
  bool lends = false;           ///< large messages may stay in the caller's buffers: is_reference_safe()
  LentBuffer lent[2];           ///< among several processes: those parts of them where they may
  bool alone_reduces = false;   ///< one rank, and a reduction of one operand is more than a copy: bool becomes 0 or 1
  const Step* table = nullptr;  ///< in device memory; nullptr: `steps`
  // Of ragged calls: counts and offsets of the input's blocks and of the output's, and the tile. The binding's own view
  // of them is made where they are read.
  Elems tile;
  std::size_t blocks[4][kMaxDeviceRanks] = {};
  std::uint32_t input_blocks = 0;
  std::uint32_t output_blocks = 0;
  Step steps[kInlineSteps];

  /// The LentPlace of what lies in the caller's buffers; 0: not all peers can read it there.
  TUTTI_HD std::uint64_t place_of(const std::byte* memory) const {
    if (links.single_process) return reinterpret_cast<std::uintptr_t>(memory);
    for (const LentBuffer& buffer : lent)
      if (buffer.holds(memory)) return buffer.place + static_cast<std::uint64_t>(memory - buffer.begin);
    return 0;
  }

  TUTTI_HD std::uint32_t grid() const { return lanes * stripes; }
};
static_assert(std::is_trivially_copyable_v<DeviceCall>);
static_assert(sizeof(DeviceCall) <= 4096);

/// What the threads of a block share while a call runs; on the device its shared memory.
struct BlockMemory {
  LinkTable links;
  const void* sources[kMaxDeviceRanks];  ///< of the step under way, in the order of its operands
  Binding binding;                       ///< with the block's own scratch
};

}  // namespace tutti
