// The receiving half of a tcp link: takes the stream apart into messages, and puts each where it is wanted.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transport/tcp/tcp_frame.h"
#include "transport/tcp/tcp_memory.h"
#include "transport/tcp/tcp_stream_source.h"
#include "transport/transport.h"

namespace tutti {

/// Reads no further than to the message that is asked for: what comes after it may have a better place when it is
/// asked for than a slot.
class TcpInbox {
 public:
  /// Told of a frame that is not a message, and of the counts in every frame. False: it makes no sense.
  class Listener {
   public:
    virtual bool on_counts(const ReleaseCounts& released) = 0;
    virtual bool on_resume(std::uint32_t sequence, std::uint32_t bytes) = 0;

   protected:
    ~Listener() = default;
  };

  TcpInbox(Bytes max_message, std::uint32_t credits, bool checksum);

  /// Looks at the next message of a link, as Endpoint::recv_peek; reads nothing.
  Peek peek(FrameKind kind, Bytes bytes, Fingerprint fingerprint) const;
  /// The next message of the link, if it is this one and has not begun to arrive, may be put there instead of into a
  /// slot. nullptr: nowhere.
  void land(FrameKind kind, std::byte* memory, Bytes bytes, Fingerprint fingerprint);
  /// Gives the oldest message back. True: the peer should be told soon.
  bool release(FrameKind kind);
  const ReleaseCounts& released() const { return released_; }
  /// The peer has been told of all releases so far.
  void told() { told_ = released_; }

  /// Reads until a message of `kind` is whole, or all messages of both links if that is none, or the socket is empty.
  /// kDone: a message is whole; kAgain: empty; kClosed: the connection is lost, fault() says why.
  SocketState read(TcpStream& stream, std::optional<FrameKind> kind, Listener& listener);
  const std::string& fault() const { return fault_; }

  /// The connection is lost: what was received of a message stays, unless it was damaged. Goes on with a new one.
  void restart(std::vector<std::byte> leftover);
  /// What to ask the peer to go on with.
  std::uint32_t expected() const { return sequence_; }
  std::uint32_t partly() const;

  std::uint64_t bytes_read() const { return bytes_read_; }
  std::size_t memory_bytes() const;

 private:
  struct Message {
    TcpFrame frame;
    const std::byte* data = nullptr;
    TcpSlot slot;
  };
  struct Link {
    std::uint32_t arrived = 0;  ///< whole messages; wraps, as released_ does
    std::vector<Message> messages;
  };
  struct Landing {
    std::byte* memory = nullptr;
    FrameKind kind = FrameKind::kUnicast;
    Bytes bytes;
    Fingerprint fingerprint = 0;
  };
  /// Messages from here on are worth system calls of their own to save a copy.
  static constexpr std::size_t kInPlaceBytes = 16 * 1024;
  static constexpr std::size_t kBufferBytes = 64 * 1024;

  static std::size_t index(FrameKind kind) { return static_cast<std::size_t>(kind); }
  bool whole(FrameKind kind) const { return links_[index(kind)].arrived != released_[index(kind)]; }
  Message& message(FrameKind kind, std::uint32_t at) { return links_[index(kind)].messages[at & (credits_ - 1)]; }
  const Message& message(FrameKind kind, std::uint32_t at) const {
    return links_[index(kind)].messages[at & (credits_ - 1)];
  }
  bool take_buffered(std::optional<FrameKind> kind, Listener& listener);
  bool take_frame(const TcpFrame& frame, Listener& listener);
  bool begin_message(const TcpFrame& frame);
  bool end_message();
  std::byte* place(const TcpFrame& frame);
  SocketState receive(TcpStream& stream);
  SocketState receive_some(TcpStream& stream, std::byte* first, std::size_t first_bytes, std::size_t behind,
                           std::size_t* got);
  bool insane(const char* why);

  const Bytes max_message_;
  const std::uint32_t credits_;  // a power of two
  const bool checksum_;
  std::array<Link, kLinkKinds> links_;
  ReleaseCounts released_{};
  ReleaseCounts told_{};
  Landing landing_;
  std::uint32_t sequence_ = 0;  // of the next message to begin or, while one is filling, of that

  bool resumed_ = false;  // the connection's first frame has come
  bool filling_ = false;  // a message's frame has been taken, not all of its payload
  TcpFrame filled_frame_;
  std::byte* target_ = nullptr;
  std::size_t filled_ = 0;

  std::vector<std::byte> buffer_;  // what was received and not taken yet: begin_ to end_
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t wanted_bytes_ = 0;  // of the message asked for last
  std::string fault_;
  std::uint64_t bytes_read_ = 0;
};

}  // namespace tutti
