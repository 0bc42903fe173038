// The receiving half of a tcp link: takes the stream apart into messages, and puts each where it is wanted.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/tcp/tcp_frame.h"
#include "transport/tcp/tcp_memory.h"
#include "transport/tcp/tcp_stream_source.h"
#include "transport/transport.h"

namespace tutti {

/// When the peer should hear that its message was released.
enum class ReleaseNews : std::uint8_t {
  kWithTheNextMessage,  ///< the peer has credits enough
  kSoon,                ///< the peer lent the message, and cannot end its call until it hears
  kAtOnce,              ///< the peer may run out of credits
};

/// Reads no further than to the message that is asked for, because by the time the next one is asked for, there may be
/// a better place for it than a slot.
class TcpInbox {
 public:
  /// Gets the counts of every frame, and each kResume. Returns false if what came makes no sense.
  class Listener {
   public:
    virtual bool on_counts(const ReleaseCounts& released) = 0;
    virtual bool on_resume(std::uint32_t sequence, std::uint32_t bytes) = 0;

   protected:
    ~Listener() = default;
  };

  TcpInbox(Bytes max_message, std::uint32_t credits, FrameCheck check);

  /// Looks at the next message of a link, as Endpoint::recv_peek does; reads nothing from the socket.
  Peek peek(FrameKind kind, Bytes bytes, Fingerprint fingerprint) const;
  /// If the link's next message has this size and fingerprint and has not begun to arrive, it may be put into `memory`
  /// instead of into a slot. nullptr takes an earlier landing back.
  void land(FrameKind kind, std::byte* memory, Bytes bytes, Fingerprint fingerprint);
  /// Gives the oldest message back, and says when the peer should hear of it.
  ReleaseNews release(FrameKind kind);
  const ReleaseCounts& released() const { return released_; }
  /// Called when the counts of all releases so far go to the peer.
  void told() { told_ = released_; }

  /// Reads until a message of `kind` is whole or the socket is empty; if `kind` is none, always until the socket is
  /// empty. Returns kDone if a message is whole, kAgain if the socket is empty, and kClosed if the connection is lost;
  /// then fault() says why.
  SocketState read(TcpStream& stream, std::optional<FrameKind> kind, Listener& listener);
  const std::string& fault() const { return fault_; }

  /// Goes on with a new connection after the last one was lost. What was received of a message stays, unless it was
  /// damaged. `leftover` was read from the new connection before. If it
  /// throws std::bad_alloc, nothing has changed.
  void restart(std::vector<std::byte> leftover);
  /// The message that the peer is to go on with, and how many bytes of it, frame included, are here.
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
    std::uint32_t arrived = 0;  ///< how many whole messages have come; wraps, as released_ does
    std::vector<Message> messages;
  };
  struct Landing {
    std::byte* memory = nullptr;
    FrameKind kind = FrameKind::kUnicast;
    Bytes bytes;
    Fingerprint fingerprint = 0;
  };
  /// For messages of this size and larger, the copy that is saved is worth a system call of their own.
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
  const FrameCheck check_;
  std::array<Link, kLinkKinds> links_;
  FreeTcpSlots free_;
  ReleaseCounts released_{};
  ReleaseCounts told_{};
  Landing landing_;
  std::uint32_t sequence_ = 0;  // that of the message under way or, if there is none, of the next

  bool resumed_ = false;  // the connection's first frame has come
  bool filling_ = false;  // a message is under way: its frame has been taken, not all of its payload
  TcpFrame filled_frame_;
  std::byte* target_ = nullptr;
  std::size_t filled_ = 0;

  std::unique_ptr<std::byte[]> buffer_;  // what was received and not taken yet: begin_ to end_
  std::size_t buffer_bytes_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t wanted_bytes_ = 0;  // the size of the message asked for last
  std::string fault_;
  std::uint64_t bytes_read_ = 0;
};

}  // namespace tutti
