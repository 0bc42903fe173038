// The sending half of a tcp link: messages that are to be written, and messages that the peer may still ask for again.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <vector>

#include "transport/tcp/tcp_frame.h"
#include "transport/tcp/tcp_memory.h"
#include "transport/tcp/tcp_stream_source.h"

namespace tutti {

/// A message is kept until the peer has released it. From then on it occupies no credit, and it need not be sent again
/// if the connection is lost.
class TcpOutbox {
 public:
  TcpOutbox(Bytes max_message, std::uint32_t credits, FrameCheck check);

  bool has_credit(FrameKind kind) const { return link(kind).sent - link(kind).released < credits_; }
  /// Memory for the next unicast message; needs a credit.
  std::byte* claim(Bytes bytes);
  /// Queues the claimed message. `mine` counts what this rank has released.
  void commit(Bytes bytes, Fingerprint fingerprint, const ReleaseCounts& mine);
  /// Queues a message that lies elsewhere and stays there until released. Needs a credit. `head` is room for the frame,
  /// best right in front of the data; if it is nullptr, the frame is kept here. `of_caller`: the data is the caller's,
  /// whose call waits for the release.
  void lend(FrameKind kind, std::byte* head, const std::byte* data, Bytes bytes, Fingerprint fingerprint,
            const ReleaseCounts& mine, bool of_caller);

  /// Notes how many messages the peer has released. Returns false if those are more than were sent.
  bool released(const ReleaseCounts& counts);
  std::uint32_t sent(FrameKind kind) const { return link(kind).sent; }
  std::uint32_t released(FrameKind kind) const { return link(kind).released; }

  /// write() will send what this rank has released in a frame of its own, at the next border between messages, unless a
  /// message that is queued before carries it.
  void tell_releases() { release_due_ = true; }
  bool tells_releases() const { return release_due_; }
  /// Whether anything waits to be written.
  bool unsent() const { return unsent_messages() || release_due_ || note_left_ != 0; }
  /// Whether a message waits to be written. All else is sent again on the next connection anyway.
  bool unsent_messages() const {
    return link(FrameKind::kUnicast).unwritten() || link(FrameKind::kMulticast).unwritten();
  }
  /// Whether something waits for room in the socket, and not for the peer's greeting.
  bool waits_for_socket() const { return note_left_ != 0 || (resumed_ && unsent()); }
  /// Writes what the socket takes; `mine` counts what this rank has released. Returns kAgain if the socket is full,
  /// kClosed if the connection is lost.
  SocketState write(TcpStream& stream, const ReleaseCounts& mine);

  /// Begins a new connection with a greeting, which tells the peer that the message `expected` is next and that `bytes`
  /// of it, frame included, are here. Messages are written once the peer's greeting has come, see resume().
  void restart(std::uint32_t expected, std::uint32_t bytes, const ReleaseCounts& mine);
  /// Called when the peer's greeting has come: the peer has all messages before `sequence`, and `bytes` of that one.
  /// Returns false if that cannot be.
  bool resume(std::uint32_t sequence, std::uint32_t bytes);
  bool resumed() const { return resumed_; }

  std::uint64_t bytes_written() const { return bytes_written_; }
  std::size_t memory_bytes() const;

 private:
  struct Message {
    std::uint32_t sequence = 0;
    const std::byte* head = nullptr;  ///< the frame as it travels
    const std::byte* data = nullptr;
    std::size_t bytes = 0;
    std::array<std::byte, TcpFrame::kBytes> own_head{};
    TcpSlot slot;  ///< of a claimed message
  };
  struct Link {
    // These count messages and wrap; released <= written <= sent.
    std::uint32_t sent = 0;
    std::uint32_t released = 0;
    std::uint32_t written = 0;  ///< the operating system has taken all of them
    std::vector<Message> messages;
    bool unwritten() const { return written != sent; }
  };
  static constexpr std::size_t kMaxPieces = 16;
  using Cursors = std::array<std::uint32_t, kLinkKinds>;  ///< by link kind: the number of one of its messages

  Link& link(FrameKind kind) { return links_[static_cast<std::size_t>(kind)]; }
  const Link& link(FrameKind kind) const { return links_[static_cast<std::size_t>(kind)]; }
  std::size_t index(const Link& one) const { return static_cast<std::size_t>(&one - links_.data()); }
  Message& message(Link& link, std::uint32_t at) { return link.messages[at & (credits_ - 1)]; }
  const Message& message(const Link& link, std::uint32_t at) const { return link.messages[at & (credits_ - 1)]; }
  void queue(FrameKind kind, std::byte* head, const std::byte* data, Bytes bytes, Fingerprint fingerprint,
             const ReleaseCounts& mine, std::uint8_t flags);
  const Link* next_link(const Cursors& at) const;
  std::size_t gather(iovec* pieces, const ReleaseCounts& mine);
  std::size_t gather_message(const Message& message, std::size_t from, iovec* pieces) const;
  void encode_note(const TcpFrame& frame);
  bool note_is_next() const { return note_left_ != 0 && (partly_ == 0 || greeting_); }
  void advance(std::size_t bytes);

  const std::uint32_t credits_;  // a power of two
  const FrameCheck check_;
  std::array<Link, kLinkKinds> links_;
  FreeTcpSlots free_;
  std::uint32_t sequence_ = 0;  // of the next message
  std::size_t partly_ = 0;      // how many bytes of the message under way are written, frame included

  // A note is a frame without a message. It goes between the message that is partly written and the next. Only the
  // first on a connection, the greeting, goes before the former, which was partly written on the connection before.
  std::array<std::byte, TcpFrame::kBytes> note_{};
  std::size_t note_left_ = 0;
  bool greeting_ = false;  // whether the note is the greeting
  bool release_due_ = false;
  bool resumed_ = false;
  std::uint64_t bytes_written_ = 0;
};

}  // namespace tutti
