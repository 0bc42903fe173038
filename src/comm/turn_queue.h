// The turn queue orders a communicator's operations. Each takes a ticket when it is called and runs when that ticket is
// next.
#pragma once

#include <atomic>
#include <cstdint>
#include <set>

#include "core/clock.h"
#include "core/mutex.h"

namespace tutti {

/// The API's thread takes tickets and asks for numbers; the thread that runs an operation ends it, which may be another
/// one. The rest is for any thread.
class TurnQueue {
 public:
  /// Takes the ticket of a new operation, which comes after all others. `queued_collective`: it is a collective that
  /// runs later, and takes a number then.
  std::uint64_t take(bool queued_collective = false) {
    if (queued_collective) promised_ = next_number();
    const std::uint64_t ticket = next_.load(std::memory_order_relaxed);
    next_.store(ticket + 1, std::memory_order_relaxed);  // one caller at a time, so no atomic add is needed
    return ticket;
  }
  /// Gives back the ticket of an operation that nobody will begin, if it is the newest ticket.
  void give_back(std::uint64_t ticket) {
    if (next_.load(std::memory_order_relaxed) == ticket + 1) next_.store(ticket, std::memory_order_relaxed);
  }
  /// Whether all operations before this one have ended.
  bool is_turn(std::uint64_t ticket) const { return ended_.load(std::memory_order_acquire) == ticket; }
  /// Whether no operation is queued or running.
  bool is_empty() const { return is_turn(next_.load(std::memory_order_relaxed)); }
  /// The operation whose turn it is has ended. If another thread than the API's ran it, notify() follows.
  void end(std::uint64_t ticket) { ended_.store(ticket + 1, std::memory_order_release); }
  /// Wakes who waits until the queue is empty.
  void notify();
  /// This operation will never run, so its turn is skipped when it comes.
  void give_up(std::uint64_t ticket);
  /// Blocks until the queue is empty or notify() was called, but not longer than `most`. Returns whether it is
  /// empty.
  bool wait_for_end(Clock::duration most);

  /// The number of the newest collective that has begun. Numbers count from 1. For the thread whose turn it is.
  std::uint64_t number() const { return number_; }
  std::uint64_t begin_number() { return ++number_; }
  /// The number that the next collective will have, after those that are queued. For the API's thread.
  std::uint64_t next_number() const { return (is_empty() ? number_ : promised_) + 1; }

 private:
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::uint64_t> ended_{0};  // release in end() and notify(), pairs with the acquire in is_turn()
  std::uint64_t number_ = 0;             // ordered between threads by the turns
  std::uint64_t promised_ = 0;  // the number of the newest collective that is queued; for the API's thread only
  Mutex mutex_;
  std::set<std::uint64_t> given_up_ TUTTI_GUARDED_BY(mutex_);
  ConditionVariable changed_;
};

}  // namespace tutti
