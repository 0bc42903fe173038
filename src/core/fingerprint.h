// The fingerprint of a call: a 64-bit hash that the header of every message carries, so that two ranks whose calls
// differ notice it in the data itself.
#pragma once

#include <cstdint>

#include "core/types.h"
#include "core/units.h"

namespace tutti {

using Fingerprint = std::uint64_t;

/// Finaliser of SplitMix64 (Steele, Lea, Flood 2014): every input bit changes about half of the output bits.
TUTTI_HD constexpr std::uint64_t mix64(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// Messages of a call whose blocks differ in size carry this. `block` is the number of elements in the block. Two ranks
/// that disagree about that number find out at the block's first message.
TUTTI_HD constexpr Fingerprint fingerprint_of_block(Fingerprint call, std::uint64_t block) {
  return mix64(call + block);
}

/// The call in clear, as ranks must agree on it. `sequence` counts the communicator's collectives from 1.
struct Call {
  std::uint64_t sequence = 0;
  std::uint64_t count = 0;  ///< elements, as passed to the C function
  Collective collective = Collective::kNone;
  DataType type = DataType::kInt8;
  RedOp op = RedOp::kSum;
  Rank root = kNoRank;
  DataType wire = DataType::kInt8;  ///< what float32 travels as; kInt8: as it is
  bool on_device = false;           ///< its messages are on a device's links
  bool memory_unknown = false;      ///< on boards only: that is not known, because the rank moves nothing

  bool operator==(const Call&) const = default;
};

/// All of a call but count and sequence in one word; unpack_call() reads it back.
constexpr std::uint64_t pack_call(const Call& call) {
  return static_cast<std::uint64_t>(call.collective) | static_cast<std::uint64_t>(call.memory_unknown) << 6 |
         static_cast<std::uint64_t>(call.on_device) << 7 | static_cast<std::uint64_t>(call.type) << 8 |
         static_cast<std::uint64_t>(call.wire) << 12 | static_cast<std::uint64_t>(call.op) << 16 |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(call.root.value)) << 32;
}
constexpr void unpack_call(std::uint64_t what, Call* call) {
  call->collective = static_cast<Collective>(what & 0x3f);
  call->memory_unknown = (what >> 6 & 1) != 0;
  call->on_device = (what >> 7 & 1) != 0;
  call->type = static_cast<DataType>(what >> 8 & 0xf);
  call->wire = static_cast<DataType>(what >> 12 & 0xf);
  call->op = static_cast<RedOp>(what >> 16 & 0xffff);
  call->root = Rank{static_cast<std::int32_t>(what >> 32)};
}

/// Each field spread by an odd factor of its own, then one round of mixing: 3 ns before the first byte can be sent.
constexpr Fingerprint fingerprint_of(const Call& call) {
  return mix64(pack_call(call) * 0x9e3779b97f4a7c15ull + call.count * 0xc2b2ae3d27d4eb4full +
               call.sequence * 0xd1342543de82ef95ull);
}

}  // namespace tutti
