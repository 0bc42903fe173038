// The membership is what a rank knows of the lives of its communicator's ranks, and its way to report to them why the
// communicator failed. The hub's service thread and ranks that fail or leave write it, and the rank's waiting thread
// reads it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/messages/failure_cause.h"
#include "core/call_board.h"
#include "core/clock.h"
#include "core/status.h"
#include "core/units.h"
#include "net/crypto.h"

namespace tutti {

class ProcessMembership;
class Hub;
class ListenerSlot;
class MemberTable;

/// kLeft: the rank said goodbye, in Destroy or because its process ended in order. kDead: its process is gone without a
/// goodbye.
enum class Liveness : std::uint8_t { kAlive = 0, kLeft = 1, kDead = 2 };

/// One per rank and communicator, made by join(). All functions are thread-safe. When it is destroyed, the rank leaves
/// its group; if say_goodbye() was not called before, peers see that as a failure of this rank.
class Membership {
 public:
  /// Called in the loop's thread, once the process is linked.
  Membership(std::shared_ptr<Hub> hub, std::shared_ptr<ProcessMembership> membership, Rank rank);
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  Rank rank() const { return rank_; }
  int ranks() const;
  const std::shared_ptr<Hub>& hub() const { return hub_; }
  /// Returns what the ranks of this process have in common.
  const std::shared_ptr<ProcessMembership>& of_process() const { return process_membership_; }
  /// It is random, equal on all ranks of this communicator, and different for any other.
  std::uint64_t comm_id() const;
  /// Makes the secret of a communicator that is split from this one. All ranks of this one, and nobody else, can derive
  /// it from the nonce. It never travels.
  Status secret_of_child(const KeyId& nonce, Key* secret) const;

  Liveness liveness(Rank rank) const;
  bool was_unreachable(Rank rank) const;
  /// The sequence number in the rank's goodbye; 0 while it is alive.
  std::uint64_t last_sequence(Rank rank) const;
  /// The newest operation of which a goodbye said that all ranks have finished it; 0 if none did. In a mesh only the
  /// goodbyes of this process count.
  std::uint64_t finished_by_all() const;
  /// The rank's device, as in JoinRequest; empty if it uses none.
  const std::string& device(Rank rank) const;
  /// "process 4711 on host x", for texts.
  std::string describe(Rank rank) const;
  /// "rank 2 (process 4711 on host x) died", or "left", for a rank that has ended.
  std::string describe_end(Rank rank) const;

  /// The first cause that a peer gave, or this rank by post_cause(). Its code is kOk if there is none.
  FailureCause cause() const;
  /// Sends a cause to all other ranks. Each rank keeps the first cause that it hears. Returns within 0.1 s whatever the
  /// peers do; by then the operating system has the message for every peer that is alive.
  void post_cause(const FailureCause& cause);
  /// The rank gives its membership up: for all others it is dead, but not for its own calls.
  void abandon();
  /// Tells all other ranks that this one leaves after its operation number `last_sequence`. Later calls do nothing.
  /// `finished_by_all`: all ranks have finished that operation, as they have if Finalize ended without an error.
  void say_goodbye(std::uint64_t last_sequence, bool finished_by_all = false);
  /// Whether the systems of all connected processes have all that this one has sent them. Until then its goodbye may be
  /// lost if it closes its connections: whatever a peer sends is answered with a reset, and what is not acknowledged is
  /// not sent again. Does not block.
  bool delivered() const;

  /// The listener is called after each change of a life or of the cause, by the thread that made the change, without
  /// locks held. It must not block. There is one at a time; an empty function unsets it. Setting it waits for a running
  /// call to end.
  void set_listener(std::function<void()> listener);

  // What follows is about call boards (core/call_board.h). Of ranks whose memory is not mapped here there are copies,
  // which control messages update.

  /// The service thread reads this board of the rank's from now on. nullptr unsets it, and waits for a running read to
  /// end.
  void set_board(const CallBoard* board);
  /// The copy of a peer's board as last heard of; zeroed until then. Never nullptr. Any thread.
  const CallBoard* board(Rank peer) const;
  /// Asks these ranks, where they live, for their boards; the copies change when they answer. A process that has not
  /// answered the last question is not asked again. Of those that this process is not connected to it connects to the
  /// first `dials`, and leaves the others out. Does not block.
  void ask_boards(const std::vector<Rank>& of, int dials);
  /// For how long the process of a rank that lives has not answered that question; zero if it has, or was not asked.
  /// Any thread.
  Clock::duration unanswered(Rank peer) const;
  /// Tells all others the own board as it is now, unasked.
  void publish_board();

 private:
  std::shared_ptr<Hub> hub_;
  std::shared_ptr<ProcessMembership> process_membership_;
  std::shared_ptr<MemberTable> member_table_;
  std::shared_ptr<ListenerSlot> slot_;
  const Rank rank_;
  std::atomic<bool> posted_{false};  // exchanged, so that only one of several threads that post at once sends
};

}  // namespace tutti
