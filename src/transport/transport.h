// The contract of a transport. An endpoint is one rank's view of all its links in one communicator.
//
// A link has one sender, one lane, and as readers one rank (unicast) or all others (multicast). It is ordered and
// bounded, and has at least two credits. Sender and receiver use the same memory:
//
//   sender:    send_claim -> memory of the slot, or nullptr: try again       fill it    send_commit
//   receiver:  recv_peek  -> memory of the message, or kAgain: try again     use it     recv_release
//
// So a reduction reads straight from the peer's slot. Claims and peeks have no effect until committed or released and
// may be repeated; at most one claim a link is open. Messages are committed and released in order. A message may have
// zero bytes.
//
// Threads: one thread at a time drives an endpoint (claim, commit, peek, release, announce, sleep); wake() may be
// called by any thread. Nothing here blocks except sleep(). Nothing allocates after construction, except at a link's
// first messages.
//
// An endpoint is a C++20 concept, not a base class: the executor is compiled once for each transport, so that a small
// message pays for no indirect call. tests/transport/conformance.h tests that every endpoint does what this page says.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "core/call_board.h"
#include "core/fingerprint.h"
#include "core/units.h"

namespace tutti {

/// Names a link from one end. `multicast` means the multicast link: this rank's when it sends, that of `peer` when it
/// receives.
struct Route {
  Rank peer = kNoRank;
  bool multicast = false;
  std::uint16_t lane = 0;
};

/// What recv_peek found.
enum class PeekState : std::uint8_t {
  kReady,
  kAgain,     ///< nothing there yet
  kMismatch,  ///< a message is there, but its header carries another fingerprint or size: the ranks' calls differ
};

struct Peek {
  PeekState state = PeekState::kAgain;
  const std::byte* data = nullptr;
};

/// What became of a message that was to be sent by reference.
enum class ReferenceState : std::uint8_t {
  kSent,
  kAgain,       ///< no credit now
  kNotOffered,  ///< these readers cannot read it, or not yet: send a copy
};

/// Whether a rank may still receive what was sent to it on a lane.
using Receives = std::function<bool(Rank reader, Lane lane)>;

struct Capabilities {
  Bytes max_message;      ///< the largest message, on which the ranks agreed when they joined
  std::uint32_t credits;  ///< a link holds at least so many messages of that size
  Bytes piece;            ///< the data of tuttiSend is cut into messages of this size; at most max_message
};

template <class E>
concept Endpoint = requires(E e, const E c, Route route, const std::byte* data, Bytes bytes, Fingerprint fingerprint,
                            Rank only, Rank peer, Rank* late, std::chrono::nanoseconds slice) {
  { c.rank() } -> std::same_as<Rank>;
  { c.ranks() } -> std::same_as<int>;
  { c.capabilities() } -> std::same_as<Capabilities>;

  /// Returns memory for a message of exactly `bytes` (<= max_message), aligned to 16 bytes, to 64 if the message has 64
  /// or more; nullptr if there is no credit.
  { e.send_claim(route, bytes) } -> std::same_as<std::byte*>;
  /// Publishes the claimed message. Wakes the readers that announced that they sleep.
  { e.send_commit(route, bytes, fingerprint) } -> std::same_as<void>;
  /// Sends a message without copying it: readers fetch it from `data`, which stays as it is until
  /// references_released(). Readers do not notice the difference.
  { e.send_reference(route, data, bytes, fingerprint) } -> std::same_as<ReferenceState>;
  /// Whether all readers are done with all that was sent by reference, and nothing waits to be written. A call must not
  /// end before. If not, `late` becomes one of the ranks waited for.
  { e.references_released(late) } -> std::same_as<bool>;
  /// Called when a call failed while something sent by reference may still be read. From then on readers do not get it.
  { e.revoke_references() } -> std::same_as<void>;
  /// The next message of the link. The memory stays valid and unchanged until recv_release.
  { e.recv_peek(route, bytes, fingerprint) } -> std::same_as<Peek>;
  /// Gives the slot back. Wakes the sender if it announced that it sleeps.
  { e.recv_release(route, bytes) } -> std::same_as<void>;

  /// Sleeping: announce_sleep(), then look at all links once more, then sleep() (or cancel_sleep()). After
  /// announce_sleep every later commit or release that concerns this rank, by the peer `only` or by any if that is
  /// kNoRank, ends a sleep(), at once or within 1 ms. sleep() returns after `slice` at the latest, and may return
  /// early. The announcement ends with the sleep.
  { e.announce_sleep(only) } -> std::same_as<void>;
  { e.cancel_sleep() } -> std::same_as<void>;
  { e.sleep(slice) } -> std::same_as<void>;
  /// Ends a sleep of this endpoint's rank, from any thread (death, abort, causes).
  { e.wake() } -> std::same_as<void>;

  /// This rank's board, which the driving thread writes; a peer's board, or nullptr if it cannot be read from here.
  { e.board() } -> std::same_as<CallBoard&>;
  { c.board(peer) } -> std::same_as<const CallBoard*>;
};

/// What an endpoint with connections to far ranks offers, too: messages go straight from and into the caller's memory.
/// Somebody has to move bytes for them.
template <class E>
concept NetworkEndpoint = Endpoint<E> && requires(E e, const E c, Route route, Bytes bytes, Fingerprint fingerprint,
                                                  std::byte* landing, Rank peer, Rank* late, const Receives& receives) {
  /// Works like recv_peek without a landing, but a message that has not begun to arrive may be put into `landing`
  /// (unless that is nullptr) instead of into memory of the endpoint's, and is then found there. Each call for one
  /// message names the same landing.
  { e.recv_peek(route, bytes, fingerprint, landing) } -> std::same_as<Peek>;
  /// Whether send_claim and send_reference have a credit now.
  { e.can_send(route) } -> std::same_as<bool>;
  /// Whether send_reference lends any memory to these readers, registered or not.
  { c.lends(route, bytes) } -> std::same_as<bool>;
  /// Grows with every byte that is sent or received.
  { c.bytes_moved() } -> std::same_as<std::uint64_t>;
  /// Moves and reconnects whatever waits, for a rank that waits for something else than messages.
  { e.make_progress() } -> std::same_as<void>;
  /// Whether all that was sent is in the hands of the readers or of their operating systems, so that this end may
  /// close; if not, `late` becomes one of the readers that lack something. It asks only about readers and lanes of
  /// which `receives` is true, or about all if it is empty. Each call goes on delivering.
  { e.delivered(late, receives) } -> std::same_as<bool>;
  /// Whether a connection to this peer is open, so that what it sent may still come, even if it is dead. Reads what has
  /// arrived.
  { e.hears(peer) } -> std::same_as<bool>;
  /// How much private memory is held for messages.
  { c.memory_bytes() } -> std::same_as<std::size_t>;
};

}  // namespace tutti
