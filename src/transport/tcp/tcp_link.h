// A tcp link carries all messages between this rank and one peer on one lane, over one connection at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/log.h"
#include "transport/tcp/tcp_inbox.h"
#include "transport/tcp/tcp_outbox.h"
#include "transport/tcp/tcp_stream_source.h"

namespace tutti {

/// What all links of an endpoint have in common.
struct TcpGeometry {
  Bytes max_message{256 * 1024};
  std::uint32_t credits = 8;  ///< of each link kind; a power of two
  bool checksum = false;
  std::uint32_t communicator = 0;  ///< a number of it, equal on all ranks, for FrameCheck::mark
};

/// How frames from one rank to another are checked, alike at both ends.
FrameCheck check_of(const TcpGeometry& geometry, Rank from, Rank to, Lane lane);

/// Made on the first use of the pair and lane; asks for its connection when it is used. Driven by the thread that uses
/// the endpoint.
class TcpLink final : private TcpInbox::Listener {
 public:
  /// `unsent` is the endpoint's list of links on which something waits to be written. A link adds itself when a new
  /// connection gives it something to write.
  TcpLink(TcpStreamSource& tcp_streams, const TcpGeometry& geometry, Rank self, Rank peer, Lane lane, int epoll,
          std::vector<TcpLink*>& unsent, LogSource log);
  ~TcpLink();
  TcpLink(const TcpLink&) = delete;
  TcpLink& operator=(const TcpLink&) = delete;

  Rank peer() const { return peer_; }
  Lane lane() const { return lane_; }
  TcpOutbox& outbox() { return outbox_; }
  const ReleaseCounts& releases() {
    inbox_.told();
    return inbox_.released();
  }

  /// Writes what waits. Returns false if something still waits.
  bool flush();
  /// Looks at the next message, and reads for it if it is not there.
  Peek peek(FrameKind kind, Bytes bytes, Fingerprint fingerprint, std::byte* landing);
  /// Gives the oldest message back, and says when the peer should hear of it.
  ReleaseNews release(FrameKind kind);
  /// Whether a release waits to be written.
  bool tells_releases() const { return outbox_.tells_releases(); }
  /// Puts the link on the list of those on which something waits to be written.
  void enlist();
  /// Reads all that has arrived, of both kinds.
  void read_all();
  /// Takes a new connection if one has arrived.
  void look_for_stream();
  /// Remembers that what was lent so far has to be released before the lender may go on.
  void lent(FrameKind kind) { lent_[static_cast<std::size_t>(kind)] = outbox_.sent(kind); }
  bool has_lent() const;
  /// Whether nobody will read what was lent: the peer is gone, and so is the connection, or all is written.
  bool forsaken() const { return streams_.gone(peer_) && (!stream_.socket.valid() || !outbox_.unsent_messages()); }
  /// Drops the connection for good, so that nothing is read from or written to memory of the caller's any more.
  void cut();
  /// Whether the peer has not released all that was sent, so that a lost connection must be made again even if nothing
  /// is asked of the link now.
  bool owes() const;
  /// Asks for a connection if there is none.
  void connect();
  /// Whether all that was sent is in the hands of the peer or of its operating system, so that this end may close.
  /// Writes and reads what that needs.
  bool delivered();
  /// Whether there is a connection. Reads all that has arrived first, and so finds out if the connection has ended.
  bool hears();
  /// Says whether a sleeper wakes when the socket takes more.
  void watch_output(bool on);

  std::uint64_t bytes_moved() const { return inbox_.bytes_read() + outbox_.bytes_written(); }
  std::size_t memory_bytes() const { return inbox_.memory_bytes() + outbox_.memory_bytes(); }

 private:
  bool on_counts(const ReleaseCounts& released) override { return outbox_.released(released); }
  bool on_resume(std::uint32_t sequence, std::uint32_t bytes) override;
  SocketState read(std::optional<FrameKind> kind);
  void adopt(TcpStream stream);
  void lost(const std::string& why);
  void close();

  TcpStreamSource& streams_;
  const Rank peer_;
  const Lane lane_;
  const int epoll_;
  std::vector<TcpLink*>& unsent_;
  const LogSource log_;
  TcpStream stream_;
  bool wanted_ = false;  // a stream was asked for and has not come yet
  bool cut_ = false;
  bool watches_output_ = false;
  ReleaseCounts lent_{};  // by kind: messages before this number may be lent and must be released
  TcpInbox inbox_;
  TcpOutbox outbox_;
};

}  // namespace tutti
