// The executor runs schedules: one operation of one rank at a time. No other room runs schedules over links.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

#include "core/fingerprint.h"
#include "core/ladder.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/types.h"
#include "core/units.h"
#include "core/wait_monitor.h"
#include "executor/rank_links.h"
#include "executor/transfer.h"
#include "kernels/kernels.h"
#include "schedule/schedule.h"
#include "schedule/tiling.h"

namespace tutti {

/// A call bound to a schedule: everything that the run needs, pointers included. Plain data; the buffers are the
/// caller's.
struct Launch {
  const Schedule* schedule = nullptr;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  Elems count;  ///< how many elements a block has
  Elems tile;   ///< how many elements of each block one pass works on
  Bytes element{1};
  DataType type = DataType::kUint8;  ///< of a reduction
  RedOp op = RedOp::kSum;
  std::uint32_t divisor = 1;  ///< what Avg divides by, at the complete step
  Fingerprint fingerprint = 0;
  bool alone_reduces = false;  ///< there is one rank, and its reduction is more than a copy: bool becomes 0 or 1
  /// The fast path may run it: its plan says so, blocks are all of one size, and messages are copies in the buffers'
  /// type.
  bool one_pass = false;
  bool stream_stores = false;           ///< results do not stay in the caches
  bool tree_order = false;              ///< sources are combined in the deterministic mode's order
  const UserReduction* user = nullptr;  ///< replaces `op` if it is not nullptr
  /// The input is multiplied by this first, which is one element of `type`. Only the device's executor does so. The
  /// scalar is read when the launch is made or, if it is in device memory, when the call runs.
  const void* scalar = nullptr;
  bool scalar_on_device = false;
  /// The type of messages and reductions. It differs from `type` only if the buffers are float32. `wire_element` is the
  /// size of an element in a message.
  DataType wire = DataType::kUint8;
  Bytes wire_element{1};
  bool peers_read_input = false;  ///< peers may read the input itself, as nobody writes it before the call ends
  bool lends = false;             ///< messages may go to far ranks straight from input and output: is_reference_safe()
  double kernel_timeout = 0;      ///< for calls on devices: in seconds, how long a kernel waits for a peer; 0: for ever
  bool input_is_registered = false;  ///< for calls on devices that lend: other processes may map the input
  bool output_is_registered = false;
  DeviceRange input_memory = {};  ///< for calls on devices: what input and output are parts of
  DeviceRange output_memory = {};
  /// Makes buffers, messages and reductions all of one type.
  void carry(DataType one) {
    type = wire = one;
    element = wire_element = size_of(one);
  }
  const RaggedTiling* ragged = nullptr;  ///< blocks of different sizes, see RaggedTiling; `count` is then unused
};

enum class Progress : std::uint8_t { kDone, kAgain, kFailed };

/// One rank's executor in one communicator. One thread at a time drives it.
class Executor {
 public:
  virtual ~Executor() = default;

  /// Begins an operation; the one before has ended. Allocates only when a schedule needs more scratch than any before.
  /// The launch is not copied: it stays the caller's, in place and unchanged until the operation has ended.
  virtual void start(const Launch& launch) = 0;
  /// Moves what can be moved, without blocking. After kFailed, mismatched() is the rank that sent a message of another
  /// call, or fault() or the fault of transfers() says what is wrong.
  virtual Progress advance() = 0;
  /// Starts the operation and advances it on the caller's thread, up the waiting ladder, until it is done or `monitor`
  /// ends it.
  virtual Status run(const Launch& launch, WaitMonitor& monitor) = 0;

  /// Begins an operation of sends and receives, which proceed together; those of one pair and tag are matched in order.
  /// The transfers stay the caller's and in place until all have ended. A failure is kFailed with the fault of
  /// transfers().
  virtual void start(std::span<Transfer> transfers) = 0;
  virtual Status run(std::span<Transfer> transfers, WaitMonitor& monitor) = 0;
  /// Called when the running operation has failed. Peers get nothing more out of its buffers, which are the caller's
  /// again.
  virtual void abandon() = 0;

  /// The lowest rank that the last advance() waited for; kNoRank if it waited for none.
  virtual Rank awaited() const = 0;
  /// Whether the last advance() waited for no peer, but for a device's work, which may be what the caller put there
  /// before the call. Such a wait is never hopeless and never too long.
  virtual bool waits_for_device() const { return false; }
  /// Grows with every message moved.
  virtual std::uint64_t progress() const = 0;
  /// After kFailed, the rank whose message belongs to another call.
  virtual Rank mismatched() const = 0;
  /// After kFailed, what is wrong if it is not a peer's message.
  virtual Status fault() const { return {}; }

  /// How much private memory is held for scratch chunks, for connections, and for messages that came before their
  /// receive.
  virtual std::size_t scratch_bytes() const = 0;
  /// Sleeps at most `slice`, after links().announce_sleep() and one more advance(). Events that links().wake() does not
  /// report are polled for.
  virtual void sleep(std::chrono::nanoseconds slice) = 0;
  /// The rank's links, whatever runs over them.
  virtual RankLinks& links() = 0;
  virtual const OpenTransfers& transfers() const = 0;
};

}  // namespace tutti
