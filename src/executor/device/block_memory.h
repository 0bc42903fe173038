// What the threads of a block share while a call runs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "executor/step_shape.h"
#include "kernels/device/device_reduction.h"
#include "schedule/binding.h"
#include "transport/device/device_link.h"

namespace tutti {

/// Shared memory has room for the shapes of so many steps; those of later ones are fetched one by one.
inline constexpr std::uint32_t kShapes = 64;

/// See StepPlanner::Half.
inline constexpr std::uint32_t kPlanHalves = 2;

/// A thread's part of a copy of `count` plain objects, word by word.
template <class Plain>
TUTTI_HD inline void copy_words(std::uint32_t thread, std::uint32_t threads, Plain* to, const Plain* from,
                                std::uint32_t count = 1) {
  constexpr std::uint32_t kWords = sizeof(Plain) / sizeof(std::uint64_t);
  static_assert(sizeof(Plain) % sizeof(std::uint64_t) == 0 && alignof(Plain) == alignof(std::uint64_t));
  auto* const target = reinterpret_cast<std::uint64_t*>(to);
  const auto* const source = reinterpret_cast<const std::uint64_t*>(from);
  TUTTI_NO_UNROLL
  for (std::uint32_t i = thread; i < count * kWords; i += threads) target[i] = source[i];
}

/// A copy of a plain object by one thread. The compiler for devices would make a loop of the assignment, which takes
/// several times as many instructions.
template <class Plain>
TUTTI_HD inline void copy_at_once(Plain* to, const Plain& from) {
#if defined(__CUDA_ARCH__)
  constexpr std::uint32_t kWords = sizeof(Plain) / sizeof(std::uint64_t);
  static_assert(sizeof(Plain) % sizeof(std::uint64_t) == 0 && alignof(Plain) == alignof(std::uint64_t));
  TUTTI_UNROLL
  for (std::uint32_t i = 0; i < kWords; ++i)
    reinterpret_cast<std::uint64_t*>(to)[i] = reinterpret_cast<const std::uint64_t*>(&from)[i];
#else
  *to = from;
#endif
}

/// Where the words of a message are.
struct MessagePlace {
  std::uint64_t position;  ///< in its ring
  WordPair* cell;          ///< of a small message
  std::uint64_t* head;     ///< of a large one
  SlotMark* mark;
};

/// A step with all that was computed for it, or several that run together (Step::together), or a part of
/// one whose chunks lie apart. Its messages and pieces of work are numbered; those of steps that run together in the
/// order of the steps. A message that does not exist has this rank as its peer, or reader -1.
struct StepPlan {
  // Where it stands in the program.
  std::size_t tile;
  std::uint32_t step;
  std::uint32_t steps;  ///< how many run together; 0: the program has ended
  std::uint32_t chunk;  ///< of the step's span; not 0: the message was awaited before
  std::uint32_t chunks;
  std::size_t at;  ///< where it begins in the message, in bytes

  std::int32_t messages;  ///< how many are received
  std::int32_t sends;     ///< how many are sent
  std::int32_t place;     ///< the operand that the first message becomes
  bool from_all;          ///< received from the senders' links to all
  bool more;              ///< another part of the step follows
  bool reduces;           ///< else sources are copied

  std::uint32_t bytes[kMaxDeviceRanks];       ///< by message
  Fingerprint fingerprints[kMaxDeviceRanks];  ///< by message

  // These are by message that is received.
  std::int32_t peers[kMaxDeviceRanks];  ///< the sender
  MessagePlace from[kMaxDeviceRanks];
  bool is_lent[kMaxDeviceRanks];  ///< it lies in its sender's buffer; written by the thread that waits for it

  // These are by message that is sent.
  std::int32_t readers[kMaxDeviceRanks];  ///< the receiver; this rank if all are
  MessagePlace to[kMaxDeviceRanks];
  std::uint64_t lent[kMaxDeviceRanks];     ///< its LentPlace, 0 if it is not lent
  const std::byte* data[kMaxDeviceRanks];  ///< what goes into its cell, in whole words; of a small message

  /// The operands of a step in their order, or the one source of each that runs together with others. Who takes a
  /// message writes here where it is. The last is for the own chunk where that is the only operand.
  const void* sources[kMaxDeviceRanks + 1];
  void* destinations[kMaxDeviceRanks];  ///< one or two of a step, one of each that runs together with others
  device::ReduceArgs args;              ///< of a step alone; no destinations: there is nothing to do
};

/// On the device it is in the block's shared memory.
struct BlockMemory {
  LinkTable links;
  /// One is prepared while another one runs and some threads may still finish the one before.
  StepPlan plans[3];
  BlockSections sections;
  Binding binding;  ///< the call's, but with the block's own scratch
  /// First those of the first steps. Then each thread that prepares plans has room for one later step.
  StepShape shapes[kShapes + kPlanHalves * kMaxDeviceRanks];
  std::size_t tiles;
};

}  // namespace tutti
