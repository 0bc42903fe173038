// The call board: a rank's last calls in clear, in memory that it alone writes and its peers read when they have waited
// too long. It is what turns "nothing arrives" into "rank 2 called broadcast where rank 0 called all_reduce".
#pragma once

#include <atomic>
#include <cstdint>

#include "core/fingerprint.h"
#include "core/units.h"

namespace tutti {

/// What a rank is doing about its newest call. kPointToPoint: it has ended, and the rank is in sends or receives.
enum class CallState : std::uint32_t { kIdle = 0, kRunning = 1, kDone = 2, kPointToPoint = 3 };

/// One call on the board, as read by a peer.
struct PostedCall {
  Call call;
  bool known = false;  ///< false: overwritten since, never made, or being written while read
};

/// The newest call and what its rank waits for.
struct BoardState {
  std::uint64_t sequence = 0;  ///< of the newest call; 0: none yet
  CallState state = CallState::kIdle;
  ClaimedRank waiting_for;  ///< the lowest rank it waits for, kNoRank: it does not wait

  /// False: the rank has not begun to use its board, or this is a copy of a board that nothing is known of.
  bool heard() const { return sequence != 0 || state != CallState::kIdle; }
  /// Whether the call with this number has ended without an error.
  bool has_finished(std::uint64_t call) const {
    return sequence > call || (sequence == call && state != CallState::kRunning);
  }
  bool active() const { return state == CallState::kRunning || state == CallState::kPointToPoint; }
};

/// Plain memory, zero-initialised, shared between processes. Every field is an atomic word: the writer is one thread at
/// a time (the one that runs the communicator's operation), readers are any threads of any process.
class CallBoard {
 public:
  static constexpr std::uint64_t kHistory = 64;

  /// Writer: the rank is there and has made no call.
  void open() { end(0); }
  /// Writer: a new call begins. About five stores to lines that stay in the writer's cache.
  void begin(const Call& call) {
    copy_call(call);
    head_.store(call.sequence << 2 | static_cast<std::uint64_t>(CallState::kRunning), std::memory_order_release);
  }
  /// Writer: the newest call has ended. One that failed is not ended: peers then hear the cause.
  void end(std::uint64_t sequence) {
    head_.store(sequence << 2 | static_cast<std::uint64_t>(CallState::kDone), std::memory_order_release);
  }
  /// Writer: between two calls, sends and receives begin; end() when they are over.
  void begin_point_to_point(std::uint64_t sequence) {
    head_.store(sequence << 2 | static_cast<std::uint64_t>(CallState::kPointToPoint), std::memory_order_release);
  }
  /// Writer: it waits for `peer` now (kNoRank: for nobody any more).
  void post_awaited(Rank peer) { post_awaited(ClaimedRank(peer)); }

  /// Writer of a copy: a call of the original; the state comes after its calls.
  void copy_call(const Call& call) {
    Entry& entry = history_[call.sequence % kHistory];
    entry.sequence.store(0, std::memory_order_relaxed);  // readers that see 0 or a changed number discard the entry
    entry.count.store(call.count, std::memory_order_release);
    entry.what.store(pack_call(call), std::memory_order_release);
    entry.sequence.store(call.sequence, std::memory_order_release);  // pairs with the acquire in find()
  }
  /// Writer of a copy: how the original stood.
  void copy_state(const BoardState& state) {
    post_awaited(state.waiting_for);
    head_.store(state.sequence << 2 | static_cast<std::uint64_t>(state.state), std::memory_order_release);
  }

  /// Reader: the call with this sequence, if it still stands there.
  PostedCall find(std::uint64_t sequence) const;
  /// Reader: the newest call.
  BoardState state() const {
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    const auto state = static_cast<CallState>(head & 3);
    const ClaimedRank peer(static_cast<std::int32_t>(waiting_for_.load(std::memory_order_relaxed) - 1));
    BoardState now{head >> 2, state, {}};
    if (now.active()) now.waiting_for = peer;
    return now;
  }

 private:
  void post_awaited(ClaimedRank peer) {
    waiting_for_.store(static_cast<std::uint32_t>(peer.number()) + 1, std::memory_order_relaxed);
  }

  struct Entry {
    std::atomic<std::uint64_t> sequence;
    std::atomic<std::uint64_t> count;
    std::atomic<std::uint64_t> what;
    std::uint64_t reserved;
  };

  /// Sequence and state. Each release, by the writer, pairs with the acquire in state(): who sees a call there sees its
  /// entry.
  alignas(kCacheLine) std::atomic<std::uint64_t> head_;
  std::atomic<std::uint32_t> waiting_for_;  // rank + 1, so that zeroed memory means nobody
  alignas(kCacheLine) Entry history_[kHistory];
};
static_assert(sizeof(CallBoard) == kCacheLine * 33);

}  // namespace tutti
