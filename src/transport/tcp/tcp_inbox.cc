#include "transport/tcp/tcp_inbox.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/crc32c.h"

namespace tutti {

TcpInbox::TcpInbox(Bytes max_message, std::uint32_t credits, FrameCheck check)
    : max_message_(max_message),
      credits_(std::bit_ceil(credits)),
      check_(check),
      free_(kLinkKinds * credits_, max_message) {
  for (Link& link : links_) link.messages.resize(credits_);
}

Peek TcpInbox::peek(FrameKind kind, Bytes bytes, Fingerprint fingerprint) const {
  if (!whole(kind)) return {};
  const Message& oldest = message(kind, released_[index(kind)]);
  if (oldest.frame.payload != bytes.value || oldest.frame.fingerprint != fingerprint)
    return {PeekState::kMismatch, nullptr};
  return {PeekState::kReady, oldest.data};
}

void TcpInbox::land(FrameKind kind, std::byte* memory, Bytes bytes, Fingerprint fingerprint) {
  wanted_bytes_ = bytes.value;
  // A message that has begun to arrive has its place already. This landing must not be kept for the message after it.
  const bool begun = whole(kind) || (filling_ && filled_frame_.kind == kind);
  landing_ = memory != nullptr && !begun ? Landing{memory, kind, bytes, fingerprint} : Landing{};
}

ReleaseNews TcpInbox::release(FrameKind kind) {
  const std::size_t at = index(kind);
  Message& oldest = message(kind, released_[at]);
  free_.give_back(std::move(oldest.slot));
  ++released_[at];
  if (released_[at] - told_[at] >= credits_ / 2) return ReleaseNews::kAtOnce;
  return (oldest.frame.flags & kLent) != 0 ? ReleaseNews::kSoon : ReleaseNews::kWithTheNextMessage;
}

bool TcpInbox::insane(const char* why) {
  fault_ = why;
  return false;
}

std::uint32_t TcpInbox::partly() const { return filling_ ? static_cast<std::uint32_t>(TcpFrame::kBytes + filled_) : 0; }

void TcpInbox::restart(std::vector<std::byte> leftover) {
  const std::size_t size = leftover.size();
  if (size > buffer_bytes_ || !buffer_) {
    const std::size_t bytes = std::max(size, kBufferBytes);
    buffer_ = std::make_unique_for_overwrite<std::byte[]>(bytes);  // zeroing would touch all its pages
    buffer_bytes_ = bytes;
  }
  std::copy(leftover.begin(), leftover.end(), buffer_.get());
  begin_ = 0;
  end_ = size;
  fault_.clear();
  resumed_ = false;
}

SocketState TcpInbox::read(TcpStream& stream, std::optional<FrameKind> kind, Listener& listener) {
  for (;;) {
    if (!take_buffered(kind, listener)) return SocketState::kClosed;
    if (kind && whole(*kind)) return SocketState::kDone;
    const SocketState state = receive(stream);
    if (state == SocketState::kClosed && fault_.empty()) fault_ = "the connection was closed";
    if (state != SocketState::kDone) return state;
  }
}

/// Takes what is in the buffer, up to the end of a message of `kind`.
bool TcpInbox::take_buffered(std::optional<FrameKind> kind, Listener& listener) {
  for (;;) {
    const std::size_t here = end_ - begin_;
    if (filling_ && resumed_) {
      const std::size_t rest = filled_frame_.payload - filled_;
      const std::size_t taken = std::min(rest, here);
      if (taken != 0) std::memcpy(target_ + filled_, buffer_.get() + begin_, taken);
      begin_ += taken;
      filled_ += taken;
      if (taken < rest) return true;
      if (!end_message()) return false;
      if (kind && whole(*kind)) return true;
      continue;
    }
    if (here < TcpFrame::kBytes) break;
    TcpFrame frame;
    const FrameView view(buffer_.get() + begin_, TcpFrame::kBytes);
    if (!decode(view, max_message_, check_, &frame)) return insane("a damaged frame");
    begin_ += TcpFrame::kBytes;
    if (!take_frame(frame, listener)) return false;
  }
  if (begin_ == end_) {
    begin_ = end_ = 0;
  } else if (begin_ > buffer_bytes_ / 2) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
  }
  return true;
}

bool TcpInbox::take_frame(const TcpFrame& frame, Listener& listener) {
  if (resumed_ == (frame.kind == FrameKind::kResume)) return insane("a resume out of turn, or none");
  if (!listener.on_counts(frame.released)) return insane("counts of messages that were not sent");
  switch (frame.kind) {
    case FrameKind::kRelease:
      return true;
    case FrameKind::kResume:
      resumed_ = true;
      return listener.on_resume(frame.sequence, frame.payload) || insane("a resume that cannot be served");
    default:
      return begin_message(frame);
  }
}

bool TcpInbox::begin_message(const TcpFrame& frame) {
  if (frame.sequence != sequence_) return insane("a message out of turn");
  const std::size_t at = index(frame.kind);
  if (links_[at].arrived - released_[at] >= credits_) return insane("a message without a credit");
  filled_frame_ = frame;
  target_ = place(frame);
  filled_ = 0;
  filling_ = true;
  return true;
}

std::byte* TcpInbox::place(const TcpFrame& frame) {
  const bool lands = landing_.memory != nullptr && landing_.kind == frame.kind && !whole(frame.kind) &&
                     landing_.bytes.value == frame.payload && landing_.fingerprint == frame.fingerprint;
  if (lands) return std::exchange(landing_, Landing{}).memory;
  return free_.room(&message(frame.kind, links_[index(frame.kind)].arrived).slot, frame.payload);
}

bool TcpInbox::end_message() {
  filling_ = false;
  if (check_.on && crc32c(check_.mark, std::span(target_, filled_frame_.payload)) != filled_frame_.crc)
    return insane("a damaged message");
  Link& link = links_[index(filled_frame_.kind)];
  Message& arrived = message(filled_frame_.kind, link.arrived);
  arrived.frame = filled_frame_;
  arrived.data = target_;
  ++link.arrived;
  ++sequence_;
  return true;
}

/// A payload under way goes straight to its place. If messages are small, as much is read ahead as the buffer takes; if
/// they are large, no more than a frame, so that the next payload, too, goes straight to its place.
SocketState TcpInbox::receive(TcpStream& stream) {
  const std::size_t rest = filling_ && resumed_ ? filled_frame_.payload - filled_ : 0;
  const std::size_t frame = TcpFrame::kBytes - std::min(end_ - begin_, TcpFrame::kBytes - 1);
  const std::size_t ahead = wanted_bytes_ >= kInPlaceBytes ? frame : buffer_bytes_;
  std::size_t got = 0;
  const SocketState state = receive_some(stream, target_ + filled_, rest, std::min(ahead, buffer_bytes_ - end_), &got);
  if (state != SocketState::kDone) return state;
  bytes_read_ += got;
  const std::size_t placed = std::min(got, rest);
  filled_ += placed;
  end_ += got - placed;
  return SocketState::kDone;
}

SocketState TcpInbox::receive_some(TcpStream& stream, std::byte* first, std::size_t first_bytes, std::size_t behind,
                                   std::size_t* got) {
  std::byte* const buffer = buffer_.get() + end_;
  if (stream.tls) {
    SocketState state = SocketState::kDone;
    const std::span<std::byte> to = first_bytes != 0 ? std::span(first, first_bytes) : std::span(buffer, behind);
    const Status status = stream.tls->receive(to, got, &state);
    if (!status.ok()) fault_ = status.text();
    return status.ok() ? state : SocketState::kClosed;
  }
  ssize_t received = 0;
  if (first_bytes == 0) {
    received = ::recv(stream.socket.get(), buffer, behind, MSG_DONTWAIT);
  } else {
    iovec pieces[2] = {{first, first_bytes}, {buffer, behind}};
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = 2;
    received = ::recvmsg(stream.socket.get(), &message, MSG_DONTWAIT);
  }
  if (received > 0) {
    *got = static_cast<std::size_t>(received);
    return SocketState::kDone;
  }
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) return SocketState::kAgain;
  fault_ = received == 0 ? "the peer closed the connection" : errno_text();
  return SocketState::kClosed;
}

std::size_t TcpInbox::memory_bytes() const {
  std::size_t bytes = buffer_bytes_ + free_.memory_bytes();
  for (const Link& link : links_)
    for (const Message& message : link.messages) bytes += message.slot.capacity();
  return bytes;
}

}  // namespace tutti
