// The board exchange sends call boards as control messages to ranks that cannot read them in memory.
//
// A rank that has waited for long asks (kAskBoard). The service thread of the process asked answers from the boards of
// its ranks, whatever these are doing. The waiting rank reads the copies that are made of the answers.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "comm/messages/board_message.h"
#include "comm/messages/messages.h"
#include "core/call_board.h"
#include "core/clock.h"
#include "core/mutex.h"
#include "core/rank_pages.h"

namespace tutti {

/// One per process membership. Functions marked "Loop" are for the loop's thread, the others for any.
class BoardExchange {
 public:
  /// Sends one kBoard message; must not block.
  using Send = std::function<void(ByteView message)>;

  explicit BoardExchange(int ranks) : known_(ranks) {}
  BoardExchange(const BoardExchange&) = delete;
  BoardExchange& operator=(const BoardExchange&) = delete;

  /// Sets the board of a rank of this process. nullptr unsets it, and waits for a running read to end.
  void set_own(Rank rank, const CallBoard* board);
  /// Never nullptr, and valid as long as this is. It is zeroed until something is heard of the rank. Once a board of
  /// the rank has come, it is always the same one.
  const CallBoard* copy(Rank rank) const;
  /// For how long the rank's process has owed an answer; zero if it owes none.
  Clock::duration unanswered(Rank rank, Clock::time_point now) const;
  /// The number of the rank's Finalize, if the copy of its board shows that; else 0. Any thread.
  std::uint64_t finalize_of(Rank rank) const;
  /// Hands the whole board of an own rank to `send`, while nobody else can send an older state of it. Returns false if
  /// the rank has no board.
  bool publish(Rank rank, const Send& send);

  /// Whether the own boards that are known show that their ranks have finished this call.
  bool own_have_finished(std::uint64_t sequence);
  /// Returns the newest calls of a rank up to the one with this number, which it must have finished, by its own board
  /// or by the copy; none if that does not show the call.
  std::vector<Call> finished_calls(Rank rank, std::uint64_t sequence);
  /// Returns the newest call number on an own board; 0 if nothing was called yet, or there is no board.
  std::uint64_t own_sequence(Rank rank);

  /// Loop: writes on the copy that the rank is in this operation, unless the copy shows a newer one.
  void note_sequence(Rank rank, std::uint64_t sequence) { note(rank, {sequence, CallState::kRunning, kNoRank}, {}); }
  /// Loop: writes on the copy that the rank has finished the last of these calls, unless the copy shows that or more.
  void note_finished(Rank rank, const std::vector<Call>& calls) {
    note(rank, {calls.back().sequence, CallState::kDone, kNoRank}, calls);
  }
  /// Loop: answers a question with the newest calls of each of these ranks of this process. If a rank has no board,
  /// because peers map its memory or because it has not begun, the answer only shows that the process runs.
  void answer(const std::vector<Rank>& ranks, const Send& send);
  /// Loop: makes copies of the own ranks' boards, for ranks of this process that cannot read these boards either.
  void copy_own();
  /// Loop: whether to ask the process of these ranks now. Not while it owes an answer.
  bool may_ask(const std::vector<Rank>& ranks, Clock::time_point now);
  /// Loop: the process of these ranks owes nothing: it has answered, or the connection to it is new.
  void owes_nothing(const std::vector<Rank>& ranks);
  /// Loop: takes a kBoard message of the process of these ranks, which is about one of them.
  Status take(const std::vector<Rank>& ranks, ByteView payload);

 private:
  /// An entry holds what this process knows of one rank.
  struct Known {
    /// The copy of its board. Releases in writable() and note() pair with copy()'s acquire.
    std::atomic<const CallBoard*> copy{nullptr};
    /// When its process was asked that has not answered since; zero if it owes nothing. Relaxed, because nothing else
    /// depends on it.
    std::atomic<Clock::rep> owing_since{0};
  };

  CallBoard* writable(Rank rank);
  /// A board of 2 KiB for all ranks of which the same was noted.
  struct NotedBoard {
    BoardState state;
    std::vector<Call> calls;
    std::unique_ptr<CallBoard> board;
  };

  void note(Rank rank, const BoardState& state, const std::vector<Call>& calls);

  RankPages<Known> known_;
  std::map<Rank, std::unique_ptr<CallBoard>> heard_;  // of ranks whose boards have come
  std::vector<NotedBoard> noted_;                     // their boards never change
  Mutex own_mutex_;                                   // held while an own board is read and sent
  std::map<Rank, const CallBoard*> own_ TUTTI_GUARDED_BY(own_mutex_);
};

}  // namespace tutti
