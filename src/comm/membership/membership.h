// Membership: what a rank knows of the lives of the ranks in its communicator, and how it tells them why it failed.
// Written by the hub's service thread and by ranks that fail or leave, read by the rank's waiting thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/call_board.h"
#include "core/status.h"
#include "core/units.h"
#include "net/crypto.h"

namespace tutti {

class ProcessMembership;
class Hub;
class ListenerSlot;
class MemberTable;

/// kLeft: the rank said goodbye (Destroy, or its process ended in order). kDead: its process is gone without one.
enum class Liveness : std::uint8_t { kAlive = 0, kLeft = 1, kDead = 2 };

/// Why a communicator failed, as told to its other ranks: the first cause, never the later death of the messenger.
struct FailureCause {
  Code code = Code::kOk;
  Rank from = kNoRank;     ///< who noticed
  Rank culprit = kNoRank;  ///< whose doing it is, where known
  std::string text;        ///< one sentence
};

/// One per rank and communicator, made by join(). All functions are thread-safe. Destroying it closes the rank's part
/// of the control connections; if say_goodbye() was not called before, peers see that as a failure of this rank.
class Membership {
 public:
  /// In the loop's thread, once the process is linked.
  Membership(std::shared_ptr<Hub> hub, std::shared_ptr<ProcessMembership> membership, Rank rank);
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  Rank rank() const { return rank_; }
  int ranks() const;
  /// Random, equal on all ranks of this communicator, different for any other.
  std::uint64_t comm_id() const;
  /// The secret of a communicator that is made of this one: all ranks of this one, and nobody else, can derive it
  /// from the nonce. It never travels.
  Status secret_of_child(const KeyId& nonce, Key* secret) const;

  Liveness liveness(Rank rank) const;
  /// The sequence number in the rank's goodbye; 0 while it is alive.
  std::uint64_t last_sequence(Rank rank) const;
  /// "process 4711 on host x", for texts.
  std::string describe(Rank rank) const;
  /// "rank 2 (process 4711 on host x) died", or "left"; of a rank that has ended.
  std::string describe_end(Rank rank) const;

  /// The first cause that a peer (or this rank, by post_cause) gave; code kOk: none.
  FailureCause cause() const;
  /// Tells all other ranks. The first cause in a communicator wins at each rank. Returns within 0.1 s whatever the
  /// peers do; on return the message is in the operating system's hands for every peer that is alive.
  void post_cause(const FailureCause& cause);
  /// Tells all other ranks that this one leaves after its operation number `last_sequence`. Once; later calls do
  /// nothing.
  void say_goodbye(std::uint64_t last_sequence);

  /// Called by the thread that made the change, without locks held, after each change of a life or the cause: raise the
  /// alarm and wake the sleeper. Must not block. There is one at a time; an empty function unsets it and waits
  /// for a running call to end.
  void set_listener(std::function<void()> listener);

  // Boards of ranks whose memory is not mapped here (core/call_board.h): copies, kept up to date by control messages.

  /// This rank's own board, read by the service thread from now on; nullptr: no more, waits for a running read.
  void set_board(const CallBoard* board);
  /// The copy of a peer's board as last heard of; zeroed until then. Never nullptr, any thread.
  const CallBoard* board(Rank peer) const;
  /// Asks these ranks, where they live, for their boards; the copies change when they answer. A process that has not
  /// answered the last question is not asked again; after 0.5 s its ranks wait for nobody, as their copies show. Does
  /// not block.
  void ask_boards(const std::vector<Rank>& of);
  /// Tells all others the own board as it is now, unasked.
  void publish_board();

 private:
  std::shared_ptr<Hub> hub_;
  std::shared_ptr<ProcessMembership> process_membership_;
  std::shared_ptr<MemberTable> member_table_;
  std::shared_ptr<ListenerSlot> slot_;
  const Rank rank_;
  std::atomic<bool> posted_{false};  // exchanged: of several threads that post at once one sends
};

}  // namespace tutti
