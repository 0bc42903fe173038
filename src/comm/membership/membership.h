// Membership: what a rank knows of the lives of the ranks in its communicator, and how it tells them why it failed.
// Written by the hub's service thread and by ranks that fail or leave, read by the rank's waiting thread.
#pragma once

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

/// kLeft: the rank said goodbye (Destroy, or its process ended in order). kDead: its process is gone without one.
enum class Liveness : std::uint8_t { kAlive = 0, kLeft = 1, kDead = 2 };

/// Why a communicator failed, as told to its other ranks: the first cause, never the later death of the messenger.
struct FailureCause {
  Code code = Code::kOk;
  Rank from = kNoRank;     ///< who noticed
  Rank culprit = kNoRank;  ///< whose doing it is, where known
  std::string text;        ///< one sentence
};

/// One a rank and communicator, made by join(). All functions are thread-safe. Destroying it closes the rank's part of
/// the control connections; if say_goodbye() was not called before, peers see that as a failure of this rank.
class Membership {
 public:
  virtual ~Membership() = default;

  virtual Rank rank() const = 0;
  virtual int ranks() const = 0;
  /// Random, equal on all ranks of this communicator, different for any other.
  virtual std::uint64_t comm_id() const = 0;
  /// The secret of a communicator that is made of this one: all ranks of this one, and nobody else, can derive it
  /// from the nonce. It never travels.
  virtual Status secret_of_child(const KeyId& nonce, Key* secret) const = 0;

  virtual Liveness liveness(Rank rank) const = 0;
  /// The sequence number in the rank's goodbye; 0 while it is alive.
  virtual std::uint64_t last_sequence(Rank rank) const = 0;
  /// "process 4711 on host x", for texts.
  virtual std::string describe(Rank rank) const = 0;

  /// The first cause that a peer (or this rank, by post_cause) gave; code kOk: none.
  virtual FailureCause cause() const = 0;
  /// Tells all other ranks. The first cause in a communicator wins at each rank. Returns within 0.1 s whatever the
  /// peers do; on return the message is in the kernel's hands for every peer that is alive.
  virtual void post_cause(const FailureCause& cause) = 0;
  /// Tells all other ranks that this one leaves after its operation number `last_sequence`. Once; later calls do
  /// nothing.
  virtual void say_goodbye(std::uint64_t last_sequence) = 0;

  /// Called by the thread that made the change, without locks held, after each change of a life or the cause: raise the
  /// alarm and wake the sleeper. Must not block. Set once, before the first operation; an empty function unsets it and
  /// waits for a running call to end.
  virtual void set_listener(std::function<void()> listener) = 0;

  // Boards of ranks whose memory is not mapped here (core/call_board.h): copies, kept up to date by control messages.

  /// This rank's own board, read by the service thread from now on; nullptr: no more, waits for a running read.
  virtual void set_board(const CallBoard* board) = 0;
  /// The copy of a peer's board as last heard of; zeroed until then. Never nullptr, any thread.
  virtual const CallBoard* board(Rank peer) const = 0;
  /// Asks these ranks, where they live, for their boards; the copies change when they answer. A process that has not
  /// answered the last question is not asked again; after 0.5 s its ranks wait for nobody, as their copies show. Does
  /// not block.
  virtual void ask_boards(const std::vector<Rank>& of) = 0;
  /// Tells all others the own board as it is now, unasked.
  virtual void publish_board() = 0;
};

}  // namespace tutti
