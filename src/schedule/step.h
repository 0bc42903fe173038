// A step: one fixed-size, plain instruction of a schedule. The same struct is run on the CPU and inside a CUDA kernel,
// proved, simulated and drawn.
#pragma once

#include <cstdint>

#include "core/units.h"

namespace tutti {

/// What a step does; a set. The value that flows through a step is
///   kRecv without kReduce: what arrives;   kRecv with kReduce: what arrives, reduced with the own source chunk;
///   without kRecv: the own source chunk.
/// It is then stored (kStore), sent (kSend), both, or dropped (a barrier's token).
enum Verb : std::uint8_t {
  kRecv = 1,
  kReduce = 2,
  kStore = 4,
  kSend = 8,
};

/// Whom a step receives from or sends to. The operands of a reduction with a set stand in the set's order (peer_list.h)
/// with the own source at its own place.
enum class PeerSet : std::uint8_t {
  kNone = 0,
  kOne = 1,
  kAll = 2,     ///< every other rank, in rank order
  kHost = 3,    ///< every other rank of this rank's host, in rank order; to receive from only
  kAcross = 4,  ///< the rank of every other host that has this rank's index there, in host order; to receive from only
  kGroup = 5,   ///< those of kAcross whose hosts form a HostGroup with this rank's; to receive from only
};

/// Hosts at equal distances: first, first + distance, ... `members` of them. The groups of one distance and size divide
/// the hosts from host 0 on, so a host's number tells which one it is in, as far as whole groups go.
struct HostGroup {
  std::int32_t distance = 1;  ///< at least 1, below 2^23
  std::int32_t members = 1;   ///< at least 1, below 2^8

  TUTTI_HD constexpr std::int32_t place_of(std::int32_t host) const {
    // Kernels divide numbers without a sign in fewer instructions.
    const std::uint32_t group = static_cast<std::uint32_t>(host) / static_cast<std::uint32_t>(distance);
    return static_cast<std::int32_t>(group % static_cast<std::uint32_t>(members));
  }
  TUTTI_HD constexpr std::int32_t first_of(std::int32_t host) const { return host - place_of(host) * distance; }

  /// A step that receives from a group names it where others name their peer.
  TUTTI_HD constexpr std::int32_t as_peer() const { return distance << 8 | members; }
  TUTTI_HD static constexpr HostGroup from_peer(std::int32_t peer) { return HostGroup{peer >> 8, peer & 0xff}; }
};

enum StepFlag : std::uint8_t {
  /// The matching send goes to all: the message is read from the sender's multicast link.
  kMulticastRecv = 1,
  /// A reduction with one peer takes the own source as left operand. Set exactly when the own partial result holds a
  /// lower rank than the received one, so that all ranks compute the same ordered expression.
  kOwnLeft = 2,
  /// The result of this reduction holds every rank's contribution: Avg divides here, before the only rounding.
  kComplete = 4,
  /// What is stored by a step with several chunks goes to blocks in descending order, from the destination's down.
  kDescending = 8,
  /// A copy from input to output of chunks that no other step of the rank touches: it may run at any time, and fills
  /// the waits of the others. Such steps end their lane's program.
  kAside = 16,
};

/// Which buffer a chunk lies in. Pointers are bound at launch; in place only means that two of them coincide.
enum class BufferId : std::uint8_t { kNone = 0, kInput = 1, kOutput = 2, kScratch = 3 };

/// The chunks of a step that moves several in one message: `count` of them, the named ones and those at some distances
/// from these, in runs of 2^run every 2^period. A distance counts blocks, around the end of the buffer, where the
/// collective has several blocks (then all these chunks are equally large), and parts where it has one block; in
/// scratch it counts chunks. See span.h.
struct Span {
  std::uint32_t count : 22 = 1;
  std::uint32_t run : 5 = 0;
  std::uint32_t period : 5 = 0;

  /// The distance of chunk j < count from the named one.
  TUTTI_HD constexpr std::uint32_t distance(std::uint32_t j) const {
    return (j >> run << period) | (j & ((std::uint32_t{1} << run) - 1));
  }
  constexpr bool operator==(const Span&) const = default;
};

/// 32 bytes. `chunk` is the chunk of the collective's result that travels or is worked on: it fixes the number of
/// elements (chunks with the same part index have the same size) and must be equal on both sides of a message.
/// `src_chunk` and `dst_chunk` say where in the named buffers it lies. With a span of several chunks these are the
/// first.
struct Step {
  std::uint8_t verbs = 0;
  PeerSet recv_from = PeerSet::kNone;
  PeerSet send_to = PeerSet::kNone;
  std::uint8_t flags = 0;
  BufferId src_buffer = BufferId::kNone;
  BufferId dst_buffer = BufferId::kNone;
  std::uint8_t lane = 0;
  /// How many of the next steps may run at the same time as this one: steps_together.h.
  std::uint8_t together = 0;
  std::int32_t recv_peer = -1;
  std::int32_t send_peer = -1;
  std::uint32_t chunk = 0;
  std::uint32_t src_chunk = 0;
  std::uint32_t dst_chunk = 0;
  Span span;

  TUTTI_HD constexpr bool has(std::uint8_t verb) const { return (verbs & verb) != 0; }
  TUTTI_HD constexpr bool is(StepFlag flag) const { return (flags & flag) != 0; }
  constexpr bool operator==(const Step&) const = default;
};
static_assert(sizeof(Step) == 32);

}  // namespace tutti
