// The executor runs a schedule: one operation of one rank at a time. The only room that sees both schedules and links.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "core/call_board.h"
#include "core/fingerprint.h"
#include "core/ladder.h"
#include "core/status.h"
#include "core/types.h"
#include "core/units.h"
#include "core/watch.h"
#include "schedule/schedule.h"
#include "transport/transport.h"

namespace tutti {

/// A call bound to a schedule: everything that the run needs, pointers included. Plain data; the buffers are the
/// caller's.
struct Launch {
  const Schedule* schedule = nullptr;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  Elems count;  ///< elements of a block
  Elems tile;   ///< elements of a block worked on in one pass
  Bytes element{1};
  DataType type = DataType::kUint8;  ///< of a reduction
  RedOp op = RedOp::kSum;
  std::uint32_t divisor = 1;  ///< what Avg divides by, at the complete step
  Fingerprint fingerprint = 0;
  bool alone_reduces = false;  ///< one rank, and a reduction of one operand is more than a copy: bool becomes 0 or 1
  bool one_shot = false;       ///< the direct path may run it: see is_one_shot(), and one tile holds it all
  bool stream_stores = false;  ///< the output exceeds the caches
};

/// Whether the kernels reduce this type with this operation.
bool can_reduce(DataType type, RedOp op);

/// Chooses the kernels' instruction set for the process, see TUTTI_SIMD; and the name of the one in use.
void use_simd(const std::string& name);
const char* simd_in_use();

enum class Progress : std::uint8_t { kDone, kAgain, kFailed };

/// One rank's executor in one communicator. One thread at a time drives it; wake() may be called by any thread.
class Executor {
 public:
  virtual ~Executor() = default;

  /// Begins an operation; the one before has ended. Allocates only when a schedule needs more scratch than any before.
  virtual void start(const Launch& launch) = 0;
  /// Moves what can be moved, without blocking. kFailed: a message of another call was found, `mismatched()` sent it.
  virtual Progress advance() = 0;
  /// start, then advance on the caller's thread up the waiting ladder until done, or until `watch` ends it.
  virtual Status run(const Launch& launch, Watch& watch) = 0;

  /// The lowest rank that the last advance() waited for; kNoRank: none.
  virtual Rank missing() const = 0;
  /// Grows with every message moved.
  virtual std::uint64_t progress() const = 0;
  /// The rank whose message belongs to another call, after kFailed.
  virtual Rank mismatched() const = 0;

  virtual Capabilities capabilities() const = 0;
  /// Private memory held for scratch chunks.
  virtual std::size_t scratch_bytes() const = 0;
  virtual void announce_sleep() = 0;
  virtual void cancel_sleep() = 0;
  virtual void sleep(std::chrono::nanoseconds slice) = 0;
  virtual void wake() = 0;
  virtual CallBoard& board() = 0;
  virtual const CallBoard* board(Rank peer) const = 0;
};

}  // namespace tutti
