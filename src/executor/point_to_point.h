// Sends and receives between pairs of ranks, on a lane of their own so that collectives never meet their messages.
//
// A transfer is sent as an envelope (its tag, type and size, and all of its data if it is small) followed by pieces of
// the size that the links name. The transfers of one pair follow each other in the order of the sends. A receiver takes
// an envelope off a link only while one of its receives could match it or a later one. A message that matches none is
// kept in the receiver's memory until its receive comes (an unexpected message, as in every MPI).
//
// Data that the processor does not reach comes and goes by the transfer's staging, piece by piece. Where a piece is not
// there yet, or has no room yet, its link waits, and no other one does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/units.h"
#include "executor/executor.h"
#include "transport/transport.h"

namespace tutti {

struct PointToPointPolicy {
  Lane lane;                                                 ///< the endpoint's lane that only transfers use
  Bytes most_kept{std::numeric_limits<std::size_t>::max()};  ///< limit of unexpected messages, of all peers together
};

/// One per rank and communicator; driven by one thread at a time. What arrived unexpectedly stays from batch to batch.
template <Endpoint E>
class PointToPoint final : public OpenTransfers {
 public:
  PointToPoint(E& endpoint, const PointToPointPolicy& policy);

  /// Begins a batch; the one before has ended or the communicator failed. `transfers` stay in place until it ends.
  void start(std::span<Transfer> transfers);
  /// Moves what can be moved, without blocking. Returns kFailed if a message does not fit its receive, see fault().
  Progress advance();

  Rank awaited() const { return awaited_; }
  std::uint64_t progress() const { return progress_; }
  const std::string& fault() const override { return fault_; }
  const Transfer* open_transfer() const override;
  bool is_open_with(Rank peer) const override;
  std::size_t kept_bytes() const { return kept_bytes_; }

 private:
  /// Comes before each transfer. It has 48 bytes, which a link in shared memory carries in one cache line.
  struct Envelope {
    static constexpr std::size_t kInline = 24;
    std::uint64_t bytes;
    std::int32_t tag;
    std::uint32_t type;
    std::uint64_t sequence;
    std::byte payload[kInline];
  };
  static_assert(sizeof(Envelope) == 48);

  enum class State : std::uint8_t { kWaiting, kMatched, kEnded };
  /// Where a transfer of the batch stands.
  struct Course {
    State state = State::kWaiting;
    Bytes moved{0};
  };
  /// A message that came before its receive.
  struct Unexpected {
    int tag = 0;
    DataType type = DataType::kUint8;
    Bytes bytes{0};                 ///< as announced
    std::vector<std::byte> data;    ///< what has come of it; it grows only with what comes, whatever was announced
    std::size_t receive = kNobody;  ///< the receive of the batch that waits for the rest of it
    std::size_t send = kNobody;     ///< the staged send of the batch, to this rank itself, that the rest comes from
  };
  /// A kept message that a staged receive of the batch gets.
  struct Delivery {
    Rank peer;
    Unexpected* message;
    Bytes moved{0};
  };
  /// What one peer sends: the message under way, and those that wait for their receives, oldest first.
  struct Inbound {
    std::uint64_t sequence = 0;  ///< of the next envelope
    Bytes left{0};               ///< how much of the message under way is still to come
    bool is_inline = false;      ///< it has come with its envelope
    std::byte payload[Envelope::kInline]{};
    std::size_t receive = kNobody;  ///< the receive of the batch into whose buffer it goes, or kNobody
    Unexpected* kept = nullptr;     ///< where it is kept, or nullptr
    std::list<std::unique_ptr<Unexpected>> unexpected;  ///< an empty deque takes 600 bytes, and there is one a peer
  };
  struct Outbound {
    std::uint64_t sequence = 0;      ///< of the next envelope
    std::vector<std::size_t> sends;  ///< the batch's sends to this peer, in order
    std::size_t next = 0;
    SlotStores stores;
  };
  static constexpr std::size_t kNobody = ~std::size_t{0};
  /// About what a kept message takes besides its bytes. It is counted, so that empty messages are bounded, too.
  static constexpr std::size_t kKeptOverhead = 256;
  static constexpr std::size_t index(Rank rank) { return static_cast<std::size_t>(rank.value); }

  Route route(Rank peer) const { return Route{peer, false, policy_.lane.value}; }
  static Fingerprint fingerprint(std::uint64_t sequence, bool envelope);

  void send_to_self(std::size_t transfer);
  bool take_unexpected(std::size_t receive, Rank peer);
  void finish_from(Rank peer, Unexpected* message, std::size_t receive);
  void drop(Rank peer, Unexpected* message);
  bool keep_more(Unexpected* message);
  void keep_staged_sends();
  bool deliver(Delivery* delivery);
  void deliver_kept();
  std::byte* claim(Rank peer, Bytes size);
  const std::byte* data_of(std::size_t send, Bytes at, Bytes size);
  std::byte* room_of(std::size_t receive, Bytes at, Bytes size);
  void advance_sends(Rank peer);
  bool send_envelope(Outbound* link, std::size_t transfer);
  bool send_pieces(Outbound& link, std::size_t transfer);
  bool advance_receives(Rank peer);
  bool take_envelope(Rank peer);
  bool keep(Rank peer, const Envelope& envelope);
  bool take_pieces(Rank peer);
  Peek peek_piece(const Inbound& link, Rank peer, Bytes size);
  bool take(Inbound* link, const std::byte* piece, Bytes size);
  std::size_t find_receive(Rank peer, int tag) const;
  bool wants(Rank peer) const;
  bool fits(std::size_t receive, Rank peer, DataType type, Bytes bytes);
  void end(std::size_t transfer, Rank peer);
  /// Remembers the lowest rank that is waited for.
  void note_awaited(Rank peer);

  E& endpoint_;
  const PointToPointPolicy policy_;
  Rank self_;
  Bytes piece_;
  std::span<Transfer> transfers_;
  std::vector<Course> courses_;       // by transfer
  std::vector<Rank> targets_;         // peers that the batch sends to
  std::vector<Rank> sources_;         // peers that it receives from; all peers if one receive is from any
  std::vector<Outbound> outbound_;    // by rank; empty until the first batch
  std::vector<Inbound> inbound_;      // likewise
  std::vector<Delivery> deliveries_;  // under way, one after another
  std::size_t staged_to_self_ = 0;    // staged sends to this rank itself that are not kept yet
  std::size_t open_ = 0;              // transfers that have not ended
  std::size_t kept_bytes_ = 0;
  Rank awaited_ = kNoRank;
  std::size_t staging_waits_ = 0;  // how often the last advance() found that staged data or its room was not there yet
  std::uint64_t progress_ = 0;
  std::string fault_;
};

}  // namespace tutti
