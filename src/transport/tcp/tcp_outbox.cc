#include "transport/tcp/tcp_outbox.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

#include "core/crc32c.h"

namespace tutti {
namespace {

bool before(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) < 0; }

/// Writes what one system call writes.
SocketState write_some(TcpStream& stream, iovec* pieces, std::size_t count, std::size_t* written) {
  *written = 0;
  if (stream.tls) {
    SocketState state = SocketState::kDone;
    const std::span<const std::byte> first(static_cast<const std::byte*>(pieces->iov_base), pieces->iov_len);
    return stream.tls->send(first, written, &state).ok() ? state : SocketState::kClosed;
  }
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = count;
  const ssize_t sent = count == 1
                           ? ::send(stream.socket.get(), pieces->iov_base, pieces->iov_len, MSG_NOSIGNAL | MSG_DONTWAIT)
                           : ::sendmsg(stream.socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) {
    *written = static_cast<std::size_t>(sent);
    return SocketState::kDone;
  }
  return errno == EAGAIN || errno == EINTR || errno == ENOBUFS ? SocketState::kAgain : SocketState::kClosed;
}

}  // namespace

LineMemory make_line_memory(std::size_t bytes) {
  void* const memory = std::aligned_alloc(kCacheLine, round_up(bytes, kCacheLine));
  if (memory == nullptr) throw std::bad_alloc();
  return LineMemory(static_cast<std::byte*>(memory));
}

TcpOutbox::TcpOutbox(Bytes max_message, std::uint32_t credits, FrameCheck check)
    : credits_(std::bit_ceil(credits)), check_(check), free_(credits_, max_message) {
  for (Link& one : links_) one.messages.resize(credits_);
}

std::byte* TcpOutbox::claim(Bytes bytes) {
  Link& unicast = link(FrameKind::kUnicast);
  return free_.room(&message(unicast, unicast.sent).slot, bytes.value);
}

void TcpOutbox::commit(Bytes bytes, Fingerprint fingerprint, const ReleaseCounts& mine) {
  std::byte* const data = claim(bytes);
  queue(FrameKind::kUnicast, data - TcpFrame::kBytes, data, bytes, fingerprint, mine, 0);
}

void TcpOutbox::lend(FrameKind kind, std::byte* head, const std::byte* data, Bytes bytes, Fingerprint fingerprint,
                     const ReleaseCounts& mine, bool of_caller) {
  Link& to = link(kind);
  if (head == nullptr) head = message(to, to.sent).own_head.data();
  queue(kind, head, data, bytes, fingerprint, mine, of_caller ? kLent : 0);
}

void TcpOutbox::queue(FrameKind kind, std::byte* head, const std::byte* data, Bytes bytes, Fingerprint fingerprint,
                      const ReleaseCounts& mine, std::uint8_t flags) {
  Link& to = link(kind);
  Message& queued = message(to, to.sent);
  TcpFrame frame;
  frame.payload = static_cast<std::uint32_t>(bytes.value);
  frame.kind = kind;
  frame.flags = flags;
  frame.sequence = sequence_++;
  frame.released = mine;
  frame.fingerprint = fingerprint;
  if (check_.on) {
    frame.flags = static_cast<std::uint8_t>(frame.flags | kChecksummed);
    frame.crc = crc32c(check_.mark, std::span(data, bytes.value));
  }
  encode(frame, FrameBytes(head, TcpFrame::kBytes), check_.mark);
  queued.sequence = frame.sequence;
  queued.head = head;
  queued.data = data;
  queued.bytes = bytes.value;
  ++to.sent;
  release_due_ = false;  // the message carries the counts
}

bool TcpOutbox::released(const ReleaseCounts& counts) {
  for (std::size_t kind = 0; kind < kLinkKinds; ++kind) {
    Link& to = links_[kind];
    if (before(to.written, counts[kind])) return false;
    for (; before(to.released, counts[kind]); ++to.released) free_.give_back(std::move(message(to, to.released).slot));
  }
  return true;
}

void TcpOutbox::encode_note(const TcpFrame& frame) {
  TcpFrame note = frame;
  if (check_.on) note.flags = kChecksummed;
  encode(note, note_, check_.mark);
  note_left_ = note_.size();
}

void TcpOutbox::restart(std::uint32_t expected, std::uint32_t bytes, const ReleaseCounts& mine) {
  TcpFrame frame;
  frame.kind = FrameKind::kResume;
  frame.sequence = expected;
  frame.payload = bytes;
  frame.released = mine;
  encode_note(frame);
  greeting_ = true;
  partly_ = 0;
  release_due_ = false;
  resumed_ = false;
}

bool TcpOutbox::resume(std::uint32_t sequence, std::uint32_t bytes) {
  if (resumed_ || before(sequence_, sequence)) return false;
  bool kept = sequence == sequence_;
  for (Link& to : links_) {
    // Only messages that the peer has released are forgotten, so the message that it asks for must be here.
    to.written = to.released;
    while (to.written != to.sent && before(message(to, to.written).sequence, sequence)) ++to.written;
    kept = kept || (to.unwritten() && message(to, to.written).sequence == sequence);
  }
  if (!kept) return false;
  const Link* const next = next_link(Cursors{links_[0].written, links_[1].written});
  if (bytes != 0 && (next == nullptr || bytes >= TcpFrame::kBytes + message(*next, next->written).bytes)) return false;
  partly_ = bytes;
  resumed_ = true;
  return true;
}

const TcpOutbox::Link* TcpOutbox::next_link(const Cursors& at) const {
  const Link& unicast = links_[0];
  const Link& multicast = links_[1];
  if (at[0] == unicast.sent) return at[1] == multicast.sent ? nullptr : &multicast;
  if (at[1] == multicast.sent) return &unicast;
  return before(message(unicast, at[0]).sequence, message(multicast, at[1]).sequence) ? &unicast : &multicast;
}

std::size_t TcpOutbox::gather_message(const Message& message, std::size_t from, iovec* pieces) const {
  const auto piece = [](const std::byte* data, std::size_t bytes) {
    return iovec{const_cast<std::byte*>(data), bytes};
  };
  if (from >= TcpFrame::kBytes || message.head + TcpFrame::kBytes == message.data) {
    const std::byte* const begin =
        from >= TcpFrame::kBytes ? message.data + (from - TcpFrame::kBytes) : message.head + from;
    pieces[0] = piece(begin, TcpFrame::kBytes + message.bytes - from);
    return 1;
  }
  pieces[0] = piece(message.head + from, TcpFrame::kBytes - from);
  if (message.bytes == 0) return 1;
  pieces[1] = piece(message.data, message.bytes);
  return 2;
}

std::size_t TcpOutbox::gather(iovec* pieces, const ReleaseCounts& mine) {
  std::size_t count = 0;
  Cursors at{links_[0].written, links_[1].written};
  const auto take = [&](std::size_t from) {
    const Link* const next = next_link(at);
    if (next == nullptr) return false;
    count += gather_message(message(*next, at[index(*next)]), from, pieces + count);
    ++at[index(*next)];
    return true;
  };
  const auto put_note = [&] { pieces[count++] = iovec{note_.data() + note_.size() - note_left_, note_left_}; };
  const bool note_leads = note_is_next();
  if (note_leads) put_note();
  if (partly_ != 0 && resumed_) take(partly_);
  if (note_left_ == 0 && release_due_ && resumed_) {  // before resume(), the peer may be in the middle of a message
    TcpFrame frame;
    frame.kind = FrameKind::kRelease;
    frame.released = mine;
    encode_note(frame);
    release_due_ = false;
  }
  if (note_left_ != 0 && !note_leads) put_note();
  while (resumed_ && count + 2 <= kMaxPieces && take(0)) continue;
  return count;
}

void TcpOutbox::advance(std::size_t bytes) {
  bytes_written_ += bytes;
  while (bytes != 0) {
    if (note_is_next()) {
      const std::size_t of_note = std::min(bytes, note_left_);
      note_left_ -= of_note;
      bytes -= of_note;
      greeting_ = greeting_ && note_left_ != 0;
      continue;
    }
    const Link* const next = next_link(Cursors{links_[0].written, links_[1].written});
    Link& under_way = links_[index(*next)];
    const std::size_t left = TcpFrame::kBytes + message(under_way, under_way.written).bytes - partly_;
    if (bytes < left) {
      partly_ += bytes;
      return;
    }
    bytes -= left;
    partly_ = 0;
    ++under_way.written;
  }
}

SocketState TcpOutbox::write(TcpStream& stream, const ReleaseCounts& mine) {
  std::array<iovec, kMaxPieces> pieces;
  if (stream.tls) {  // it may hold what the socket did not take before
    SocketState held = SocketState::kDone;
    if (!stream.tls->flush(&held).ok()) return SocketState::kClosed;
    if (held != SocketState::kDone) return held;
  }
  while (const std::size_t count = gather(pieces.data(), mine)) {
    std::size_t all = 0;
    for (std::size_t i = 0; i < count; ++i) all += pieces[i].iov_len;
    std::size_t written = 0;
    const SocketState state = write_some(stream, pieces.data(), count, &written);
    advance(written);
    if (state != SocketState::kDone) return state;
    if (written != all && !stream.tls) return SocketState::kAgain;
  }
  return stream.tls && stream.tls->wants_output() ? SocketState::kAgain : SocketState::kDone;
}

std::size_t TcpOutbox::memory_bytes() const {
  std::size_t bytes = free_.memory_bytes();
  for (const Message& message : links_[0].messages) bytes += message.slot.capacity();
  return bytes;
}

}  // namespace tutti
