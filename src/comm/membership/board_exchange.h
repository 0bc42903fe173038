// The board exchange: call boards of ranks whose memory cannot be read, as control messages.
//
// Who has waited too long asks (kAskBoard); the hub's service thread answers from the boards of its process's ranks,
// whatever these are doing. The copies are what the waiting rank reads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "comm/membership/board_message.h"
#include "comm/membership/messages.h"
#include "core/call_board.h"
#include "core/clock.h"
#include "core/mutex.h"

namespace tutti {

/// One per process membership. "Loop" functions belong to the loop's thread, the others to any.
class BoardExchange {
 public:
  /// Sends one kBoard message; must not block.
  using Send = std::function<void(ByteView message)>;

  explicit BoardExchange(int ranks) : copies_(static_cast<std::size_t>(ranks)) {}
  ~BoardExchange();
  BoardExchange(const BoardExchange&) = delete;
  BoardExchange& operator=(const BoardExchange&) = delete;

  /// The board of a rank of this process; nullptr: no more, waits for a running read.
  void set_own(Rank rank, const CallBoard* board);
  /// Never nullptr; zeroed until something was heard of the rank. Stays where it is.
  const CallBoard* copy(Rank rank) const;
  /// The whole board of an own rank, handed to `send` before anybody else sends an older state of it. False: it has
  /// none.
  bool publish(Rank rank, const Send& send);

  /// Any thread: how far an own board is; 0: nothing was called yet, or there is none.
  std::uint64_t own_sequence(Rank rank);

  /// Loop: a rank of which nothing newer is known has come to this operation and is in it.
  void note_sequence(Rank rank, std::uint64_t sequence);
  /// Loop: the answer to a question, the newest calls of each own board.
  void answer(const Send& send);
  /// Loop: the copies of own ranks, for those of this process that cannot read them either.
  void copy_own();
  /// Loop: whether to ask this process now. Not while it owes an answer; one that owes it for too long is taken for
  /// stopped: its ranks, of the copies, no longer wait for anybody, so that the search for the culprit ends there.
  bool may_ask(const ProcessId& process, const std::vector<Rank>& ranks, Clock::time_point now);
  /// Loop: the connection to a process is new; what it owed is forgotten.
  void forget(const ProcessId& process) { asked_.erase(process); }
  /// Loop: a kBoard message of a process, of one of `ranks`.
  Status take(const ProcessId& process, const std::vector<Rank>& ranks, ByteView payload);

 private:
  CallBoard* writable(Rank rank);

  std::vector<std::atomic<CallBoard*>> copies_;   // by rank; release in writable(), pairs with the acquire in copy()
  std::map<ProcessId, Clock::time_point> asked_;  // and not answered
  Mutex own_mutex_;                               // held while an own board is read and sent
  std::map<Rank, const CallBoard*> own_ TUTTI_GUARDED_BY(own_mutex_);
};

}  // namespace tutti
