// The tcp endpoint, which has links to ranks that share no memory with this one. See docs/design/tcp.md.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/log.h"
#include "core/rank_pages.h"
#include "core/status.h"
#include "transport/tcp/tcp_link.h"
#include "transport/tcp/tcp_stream_source.h"
#include "transport/transport.h"

namespace tutti {

/// One rank's end of its links to far ranks. Satisfies Endpoint and NetworkEndpoint. Connections are made on the first
/// use of a pair and lane, and again when they are lost.
class TcpEndpoint {
 public:
  /// Below this size, copying the message into a slot is cheaper than waiting, at the end of the call, until its reader
  /// has it.
  static constexpr std::size_t kLendBytes = 64 * 1024;
  /// The data of a send is copied into slots in pieces of at most this size: the copy of a larger one would push too
  /// much out of a core's cache before the socket takes it.
  static constexpr Bytes kLargestPiece{256 * 1024};

  struct Place {
    Rank rank;
    int ranks = 1;
    int lanes = 1;
    std::vector<Rank> near;  ///< those that do not read this rank's multicast link, ascending; itself among them
  };
  /// `tcp_streams` outlives the endpoint; `log` need not.
  static Status open(TcpStreamSource& tcp_streams, const TcpGeometry& geometry, Place place, LogSource log,
                     std::unique_ptr<TcpEndpoint>* endpoint);
  ~TcpEndpoint();
  TcpEndpoint(const TcpEndpoint&) = delete;
  TcpEndpoint& operator=(const TcpEndpoint&) = delete;

  Rank rank() const { return place_.rank; }
  int ranks() const { return place_.ranks; }
  Capabilities capabilities() const {
    return {geometry_.max_message, geometry_.credits, std::min(geometry_.max_message, kLargestPiece)};
  }

  std::byte* send_claim(Route route, Bytes bytes);
  void send_commit(Route route, Bytes bytes, Fingerprint fingerprint);
  ReferenceState send_reference(Route route, const std::byte* data, Bytes bytes, Fingerprint fingerprint);
  /// Also false while something waits to be written, because nobody would write it once the call has returned.
  bool references_released(Rank* late);
  void revoke_references();
  Peek recv_peek(Route route, Bytes bytes, Fingerprint fingerprint) {
    return recv_peek(route, bytes, fingerprint, nullptr);
  }
  Peek recv_peek(Route route, Bytes bytes, Fingerprint fingerprint, std::byte* landing);
  void recv_release(Route route, Bytes bytes);

  bool can_send(Route route);
  bool lends(Route /*route*/, Bytes bytes) const { return bytes.value >= kLendBytes; }
  std::uint64_t bytes_moved() const;
  /// Writes what connections did not take before, and finds new connections. A rank calls it whenever it looked for
  /// something and did not find it. Costs two loads if there is nothing to do.
  void look_around();
  void make_progress();
  bool delivered(Rank* late, const Receives& receives = {});
  bool hears(Rank peer);

  /// Whether no far rank has connected to this one, and this one has neither sent to one nor waited for one.
  bool is_unused() const { return made_.empty() && streams_.arrivals() == 0; }
  /// Whether nothing waits to be written.
  bool is_all_written() const { return unsent_.empty(); }

  void announce_sleep(Rank) {}
  void cancel_sleep() {}
  void sleep(std::chrono::nanoseconds slice);
  void wake();

  CallBoard& board() { return board_; }
  const CallBoard* board(Rank peer) const { return peer == place_.rank ? &board_ : nullptr; }
  std::size_t memory_bytes() const;

 private:
  /// Multicast messages are written to every reader's connection from one place.
  struct Multicast {
    explicit Multicast(const TcpGeometry& geometry)
        : slots(geometry.credits), free(geometry.credits, geometry.max_message) {}
    std::vector<TcpSlot> slots;  // by the number of the message
    FreeTcpSlots free;
    std::uint32_t sent = 0;
    std::uint32_t freed = 0;  // the messages before this number have been released by all, and their slots are free
  };

  TcpEndpoint(TcpStreamSource& tcp_streams, const TcpGeometry& geometry, Place place, LogSource log);
  static FrameKind kind_of(Route route) { return route.multicast ? FrameKind::kMulticast : FrameKind::kUnicast; }
  template <class What>
  void for_each_far(const What& what) const;
  TcpLink& link(Rank peer, std::uint16_t lane);
  std::byte* multicast_room(std::uint16_t lane, Bytes bytes);
  void write(TcpLink& link);
  bool write_unsent();
  bool lenders_released(Rank* late);

  TcpStreamSource& streams_;
  const TcpGeometry geometry_;
  const Place place_;
  const std::string comm_;  // holds the communicator's name for log_
  const LogSource log_;
  Descriptor epoll_;
  Descriptor doorbell_;
  /// This says by rank where the links to it begin in links_, plus 1; 0 if none was used yet, as of most ranks of many.
  RankPages<std::uint32_t> first_links_;
  std::vector<std::unique_ptr<TcpLink>> links_;  // those of a rank by lane; made on first use
  std::vector<TcpLink*> made_;                   // the links that have been made
  std::vector<Multicast> multicast_;             // by lane
  std::vector<TcpLink*> unsent_;                 // the links on which something waits to be written
  std::vector<TcpLink*> lenders_;                // the links whose readers are not done with lent memory
  std::uint64_t arrivals_ = 0;
  CallBoard board_;
};
static_assert(NetworkEndpoint<TcpEndpoint>);

}  // namespace tutti
