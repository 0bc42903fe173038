// The shm endpoint, whose links lie in segments that the ranks of a host map. docs/design/links.md has the layout and
// the memory model.
#pragma once

#include <memory>
#include <vector>

#include "core/status.h"
#include "transport/shm/segment.h"
#include "transport/shm/shm_layout.h"
#include "transport/shm/shm_ring.h"
#include "transport/shm/zeroed_array.h"
#include "transport/transport.h"

namespace tutti {

/// One rank's end of all links of a communicator on one host. Satisfies Endpoint.
///
/// A segment serves one endpoint, once: it must be zero when the endpoint is made, and lives as long as any endpoint of
/// the communicator (the shared pointers see to that). Endpoints of the ranks may be made in any order; messages sent
/// to a rank before its endpoint exists wait in the sender's segment.
class ShmEndpoint {
 public:
  /// Checks sizes, and the geometry of the peers that are there already; then constructs. `segments` are by rank, each
  /// of at least geometry.segment_bytes(). Touches what the first small messages need, so that they meet no page fault.
  static Status open(const ShmGeometry& geometry, Rank rank, std::vector<std::shared_ptr<Segment>> segments,
                     std::unique_ptr<ShmEndpoint>* endpoint);
  /// Constructs without the checks, and without touching pages beforehand.
  ShmEndpoint(const ShmGeometry& geometry, Rank rank, std::vector<std::shared_ptr<Segment>> segments);
  ShmEndpoint(const ShmEndpoint&) = delete;
  ShmEndpoint& operator=(const ShmEndpoint&) = delete;

  Rank rank() const { return rank_; }
  int ranks() const { return static_cast<int>(peers_.size()); }
  Capabilities capabilities() const { return {max_message_, credits_, max_message_}; }

  std::byte* send_claim(Route route, Bytes bytes) {
    SendRing& ring = send_ring(route, bytes);
    if (is_in_slot(bytes)) [[unlikely]]
      return claim_slot(route, bytes, &ring);
    if (!ring.has_credit() && !find_credit(route, bytes, &ring)) return nullptr;
    return ring.claim_cell(bytes.value);
  }
  void send_commit(Route route, Bytes bytes, Fingerprint fingerprint) {
    SendRing& ring = send_ring(route, bytes);
    if (is_in_slot(bytes)) [[unlikely]]
      return commit_slot(&ring, bytes, fingerprint);
    ring.commit_cell(bytes.value, fingerprint);
    wake_readers(ring);
  }
  /// Messages that fit a cell are always copied.
  ReferenceState send_reference(Route route, const std::byte* data, Bytes bytes, Fingerprint fingerprint);
  bool references_released(Rank* late);
  void revoke_references() {
    if (!references_.empty()) direct_.revoke();
  }
  Peek recv_peek(Route route, Bytes bytes, Fingerprint fingerprint) {
    if (is_in_slot(bytes)) [[unlikely]]
      return peek_slot(route, bytes, fingerprint);
    return recv_ring(route, bytes).peek_cell(bytes.value, fingerprint);
  }
  void recv_release(Route route, Bytes bytes) {
    RecvRing& ring = recv_ring(route, bytes);
    ring.release();
    ring.writer->wake_if_announced(rank_);
    if (is_in_slot(bytes)) direct_.try_offer_once(route.peer);
  }

  void announce_sleep(Rank only);
  void cancel_sleep();
  void sleep(std::chrono::nanoseconds slice);
  void wake();

  CallBoard& board() { return peers_[index(rank_.value)]->board; }
  const CallBoard* board(Rank peer) const { return &peers_[index(peer.value)]->board; }

 private:
  static std::size_t index(int value) { return static_cast<std::size_t>(value); }
  static bool is_in_slot(Bytes bytes) { return bytes.value > ShmLayout::kCellBytes; }
  static std::size_t kind_of(Bytes bytes) { return is_in_slot(bytes) ? 1 : 0; }
  std::size_t send_index(std::size_t target, std::uint16_t lane, std::size_t kind) const {
    return (target << lane_bits_ | lane) * 2 + kind;
  }
  std::size_t recv_index(std::size_t writer, bool multicast, std::uint16_t lane, std::size_t kind) const {
    return ((writer * 2 + (multicast ? 1 : 0)) << lane_bits_ | lane) * 2 + kind;
  }
  SendRing& send_ring(Route route, Bytes bytes) {
    const std::size_t target = route.multicast ? peers_.size() : index(route.peer.value);
    SendRing& ring = send_rings_[send_index(target, route.lane, kind_of(bytes))];
    if (ring.memory.headers == nullptr) [[unlikely]]
      make(&ring, target, route.lane, static_cast<RingKind>(kind_of(bytes)));
    return ring;
  }
  RecvRing& recv_ring(Route route, Bytes bytes) {
    RecvRing& ring = recv_rings_[recv_index(index(route.peer.value), route.multicast, route.lane, kind_of(bytes))];
    if (ring.memory.headers == nullptr) [[unlikely]]
      make(&ring, route, static_cast<RingKind>(kind_of(bytes)));
    return ring;
  }
  std::byte* claim_slot(Route route, Bytes bytes, SendRing* ring) const;
  void commit_slot(SendRing* ring, Bytes bytes, Fingerprint fingerprint) const;
  void wake_readers(const SendRing& ring) const {
    if (ring.reader != nullptr) return ring.reader->wake_if_announced(rank_);
    for (SleepWord* reader : readers_) reader->wake_if_announced(rank_);
  }
  bool find_credit(Route route, Bytes bytes, SendRing* ring) const;
  std::uint64_t released(Route route, std::size_t kind, Rank* late) const;
  Peek peek_slot(Route route, Bytes bytes, Fingerprint fingerprint);
  Peek peek_reference(Route route, Bytes bytes, Fingerprint fingerprint);
  bool is_read_by_all(Route route) const;
  RingMemory ring_memory(Rank writer, std::size_t target, std::uint16_t lane, RingKind kind) const;
  void make(SendRing* ring, std::size_t target, std::uint16_t lane, RingKind kind) const;
  void make(RecvRing* ring, Route route, RingKind kind) const;
  bool all_enrolled();

  const Rank rank_;
  const Bytes max_message_;
  const std::uint32_t credits_;
  const ShmLayout layout_;
  const int lane_bits_;                                   // lanes are rounded up to a power of two in the vectors below
  const std::vector<std::shared_ptr<Segment>> segments_;  // by rank
  std::vector<ControlPage*> peers_;                       // by rank, this one included
  std::vector<SleepWord*> readers_;                       // of the multicast link: all other ranks
  ZeroedArray<SendRing> send_rings_;  // by send_index(), made on first use; target ranks() is the multicast link
  ZeroedArray<RecvRing> recv_rings_;  // by recv_index(), made on first use
  bool barrier_reaches_all_ = false;
  bool barrier_was_run_ = false;  // since the last announcement
  bool nobody_came_ = false;      // the last sleep ended by itself

  /// The last message that a link carried by reference and that may still be read.
  struct Reference {
    Route route;
    std::uint64_t position;
  };
  /// A copy of a message that lies in a peer's private memory, fetched for recv_peek.
  struct Fetched {
    Route route;
    std::uint64_t position = 0;  // that of the message, plus 1; 0: nothing was fetched yet
    std::unique_ptr<std::byte[]> data;
  };
  DirectReads direct_;
  std::vector<Reference> references_;
  std::vector<Fetched> fetched_;  // one for each link that has sent by reference
};
static_assert(Endpoint<ShmEndpoint>);

}  // namespace tutti
