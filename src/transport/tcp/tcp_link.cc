#include "transport/tcp/tcp_link.h"

#include <sys/epoll.h>

#include <algorithm>
#include <span>
#include <utility>

#include "core/crc32c.h"
#include "net/socket.h"

namespace tutti {

FrameCheck check_of(const TcpGeometry& geometry, Rank from, Rank to, Lane lane) {
  const std::int32_t direction[] = {from.value, to.value, lane.value};
  return FrameCheck{geometry.checksum, crc32c(geometry.communicator, std::as_bytes(std::span(direction)))};
}

TcpLink::TcpLink(TcpStreamSource& tcp_streams, const TcpGeometry& geometry, Rank self, Rank peer, Lane lane, int epoll,
                 std::vector<TcpLink*>& unsent, LogSource log)
    : streams_(tcp_streams),
      peer_(peer),
      lane_(lane),
      epoll_(epoll),
      unsent_(unsent),
      log_(log),
      inbox_(geometry.max_message, geometry.credits, check_of(geometry, peer, self, lane)),
      outbox_(geometry.max_message, geometry.credits, check_of(geometry, self, peer, lane)) {
  look_for_stream();
}

TcpLink::~TcpLink() { close(); }

void TcpLink::close() {
  if (!stream_.socket.valid()) return;
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, stream_.socket.get(), nullptr);
  const TcpStream gone = std::move(stream_);  // its members end in the order that its guard asks for
}

void TcpLink::cut() {
  close();
  cut_ = true;
}

void TcpLink::connect() {
  if (stream_.socket.valid() || wanted_ || cut_) return;
  look_for_stream();
  if (stream_.socket.valid()) return;
  wanted_ = true;
  streams_.want(peer_, lane_);
}

void TcpLink::look_for_stream() {
  TcpStream stream;
  if (!cut_ && streams_.take(peer_, lane_, &stream)) adopt(std::move(stream));
}

void TcpLink::adopt(TcpStream stream) {
  close();
  wanted_ = false;
  stream_ = std::move(stream);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = this;
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, stream_.socket.get(), &event);
  watches_output_ = false;
  inbox_.restart(std::move(stream_.leftover));
  outbox_.restart(inbox_.expected(), inbox_.partly(), releases());
  enlist();
}

void TcpLink::enlist() {
  if (std::find(unsent_.begin(), unsent_.end(), this) == unsent_.end()) unsent_.push_back(this);
}

/// The link goes on the list of those with something to write, because nobody else knows what the peer lacks.
bool TcpLink::on_resume(std::uint32_t sequence, std::uint32_t bytes) {
  enlist();
  return outbox_.resume(sequence, bytes);
}

void TcpLink::lost(const std::string& why) {
  log(LogLevel::kInfo, log_, "the connection to rank {}, lane {}, was lost: {}", peer_.value, lane_.value, why);
  close();
}

bool TcpLink::flush() {
  // A peer that is gone needs no release counts any more, and its system, if it got some, would throw away what it
  // still has to send. If messages are left, whoever waits for the peer decides what that means.
  if (!outbox_.unsent_messages() && streams_.gone(peer_)) return true;
  // The peer's kResume must come before messages can be written, and nobody else may be reading from this link.
  if (stream_.socket.valid() && !outbox_.resumed()) read_all();
  if (!stream_.socket.valid()) {
    // A message took along the releases for which this link was listed. If the peer lacks messages, make_progress()
    // asks for a connection, or the peer does.
    if (!outbox_.unsent()) return true;
    connect();
    return false;
  }
  const SocketState state = outbox_.write(stream_, outbox_.tells_releases() ? releases() : inbox_.released());
  if (state == SocketState::kDone) return !outbox_.unsent();
  if (state == SocketState::kAgain) return false;
  read_all();  // what the peer sent before the connection was lost is still used
  if (stream_.socket.valid()) lost("it cannot be written to");
  connect();
  return false;
}

SocketState TcpLink::read(std::optional<FrameKind> kind) {
  const SocketState state = inbox_.read(stream_, kind, *this);
  if (state == SocketState::kClosed) lost(inbox_.fault());
  return state;
}

Peek TcpLink::peek(FrameKind kind, Bytes bytes, Fingerprint fingerprint, std::byte* landing) {
  const Peek peek = inbox_.peek(kind, bytes, fingerprint);
  if (peek.state != PeekState::kAgain) return peek;
  if (!stream_.socket.valid()) {
    connect();
    return peek;
  }
  inbox_.land(kind, landing, bytes, fingerprint);
  if (read(kind) == SocketState::kClosed) {
    connect();
    return peek;
  }
  return inbox_.peek(kind, bytes, fingerprint);
}

void TcpLink::read_all() {
  if (stream_.socket.valid()) read(std::nullopt);
}

ReleaseNews TcpLink::release(FrameKind kind) {
  const ReleaseNews news = inbox_.release(kind);
  if (news != ReleaseNews::kWithTheNextMessage) outbox_.tell_releases();
  return news;
}

bool TcpLink::has_lent() const {
  for (const FrameKind kind : {FrameKind::kUnicast, FrameKind::kMulticast}) {
    const std::uint32_t left = lent_[static_cast<std::size_t>(kind)] - outbox_.released(kind);
    if (static_cast<std::int32_t>(left) > 0) return true;
  }
  return false;
}

bool TcpLink::owes() const {
  return outbox_.released(FrameKind::kUnicast) != outbox_.sent(FrameKind::kUnicast) ||
         outbox_.released(FrameKind::kMulticast) != outbox_.sent(FrameKind::kMulticast);
}

bool TcpLink::delivered() {
  // The peer may wait for the same, and systems acknowledge late if nothing goes back.
  if (stream_.socket.valid()) acknowledge(stream_.socket.get());
  if (!owes() || streams_.gone(peer_)) return true;
  read_all();  // if data were left unread, closing would reset the connection, and data not sent yet would be lost
  return flush() && outbox_.resumed() && stream_.socket.valid() && all_acknowledged(stream_.socket.get());
}

bool TcpLink::hears() {
  read_all();
  return stream_.socket.valid();
}

void TcpLink::watch_output(bool on) {
  // While the link waits for the peer's greeting, a socket that takes more would end every sleep.
  on = on && (outbox_.waits_for_socket() || (stream_.tls && stream_.tls->wants_output()));
  if (on == watches_output_ || !stream_.socket.valid()) return;
  watches_output_ = on;
  epoll_event event{};
  event.events = on ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.ptr = this;
  ::epoll_ctl(epoll_, EPOLL_CTL_MOD, stream_.socket.get(), &event);
}

}  // namespace tutti
