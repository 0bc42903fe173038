#include "net/connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "net/tls_credentials.h"

namespace tutti {
namespace {

constexpr std::chrono::seconds kHandshakeTime{10};
constexpr std::size_t kMaxWaitingDescriptors = 64;
constexpr std::byte kTlsHandshake{22};  // a TLS record's first byte; ours are letters
/// A connection with more bytes unsent than this ends. The largest message, a root's table, has half of it.
constexpr std::size_t kMostUnsent = 128 * 1024 * 1024;
/// An empty input buffer keeps at most so much memory, because few messages are larger and a process has many
/// connections.
constexpr std::size_t kKeptInput = 4 * 1024;
constexpr int kReadsPerWake = 4;  // a busy peer must not keep the loop from the others

}  // namespace

Connection::Connection(EventLoop& loop, Socket connected, Handshake handshake, ConnectionEvents events)
    : loop_(loop),
      handshake_(std::move(handshake)),
      events_(std::move(events)),
      is_unix_(connected.is_unix()),
      socket_(std::move(connected)) {}

Connection::~Connection() = default;

Status Connection::start(EventLoop& loop, Socket connected, Handshake handshake, ConnectionEvents events,
                         std::shared_ptr<Connection>* connection) {
  auto made = std::make_shared<Connection>(loop, std::move(connected), std::move(handshake), std::move(events));
  try {
    if (const Status status = made->begin(); !status.ok()) {
      made->close();
      return status;
    }
  } catch (...) {  // the loop would go on watching it
    made->close();
    throw;
  }
  *connection = std::move(made);
  return {};
}

Status Connection::begin() {
  pid_t process = 0;
  TUTTI_TRY(socket_.check_peer(&process));
  undecided_ = !is_unix_ && !handshake_.is_client();
  std::vector<std::byte> hello;
  TUTTI_TRY(handshake_.start(&hello));
  TUTTI_TRY(loop_.watch(socket_.descriptor(), EPOLLIN, shared_from_this()));
  timer_ = loop_.after(kHandshakeTime, [weak = weak_from_this()] {
    if (const auto self = weak.lock())
      self->fail_with(fail(Code::kTimeout, "the other end did not answer within {} s", kHandshakeTime.count()));
  });
  return hello.empty() ? Status() : put_raw(std::move(hello));
}

void Connection::watch_exit() {
  exit_watch_ = PeerExitWatch::start(loop_, socket_, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->peer_exited();
  });
}

bool Connection::send(MessageType type, ByteView payload, int passed, std::shared_ptr<const void> owner) {
  const MutexLock lock(out_mutex_);
  if (!sendable_) return false;
  Outgoing next{.passed = passed, .owner = std::move(owner)};
  Status status = encoder_.encode(type, payload, &next.data);
  if (status.ok()) {
    const std::size_t size = next.data.size();
    out_.push_back(std::move(next));
    encoder_.count_sent();  // after all that can throw
    out_bytes_ += size;
  }
  if (status.ok() && out_bytes_ > kMostUnsent) status = fail(Code::kRemoteError, "the other end does not read");
  if (status.ok() && out_.size() > 1) return true;
  if (status.ok()) status = flush_locked();
  if (!status.ok()) {
    broken_ = status;
    sendable_ = false;
    // Not every failure shows at the socket, where the loop would hear of it.
    loop_.post([weak = weak_from_this(), why = status] {
      if (const auto self = weak.lock()) self->fail_after_reading(why);
    });
    return false;
  }
  try {
    if (waits_for_output()) arm_output();
  } catch (const std::bad_alloc&) {  // nobody would send the rest: the loop hears of this end
    sendable_ = false;
    ::shutdown(socket_.descriptor(), SHUT_RDWR);
  }
  return sendable_;
}

bool Connection::delivered() {
  const MutexLock lock(out_mutex_);
  return !sendable_ || (out_.empty() && !socket_.wants_output() && socket_.delivered());
}

Status Connection::put_raw(std::vector<std::byte> data) {
  {
    const MutexLock lock(out_mutex_);
    out_bytes_ += data.size();
    out_.push_back(Outgoing{.data = std::move(data)});
    TUTTI_TRY(flush_locked());
  }
  update_interest();
  return {};
}

/// TLS may wait for the other end's answer before it sends anything, and may hold bytes when all has been sent.
bool Connection::waits_for_output() const { return socket_.encrypted() ? socket_.wants_output() : !out_.empty(); }

Status Connection::flush_locked() {
  if (socket_.wants_output()) {
    SocketState held = SocketState::kDone;
    TUTTI_TRY(socket_.flush(&held));
    if (held == SocketState::kClosed) return fail(Code::kRemoteError, "the other end closed the connection");
  }
  while (!out_.empty()) {
    Outgoing& next = out_.front();
    std::size_t sent = 0;
    SocketState state = SocketState::kAgain;
    TUTTI_TRY(socket_.send(ByteView(next.data).subspan(next.sent), next.sent == 0 ? next.passed : -1, &sent, &state));
    if (state == SocketState::kAgain) return {};
    if (state == SocketState::kClosed) return fail(Code::kRemoteError, "the other end closed the connection");
    next.sent += sent;
    if (next.sent != next.data.size()) continue;
    out_bytes_ -= std::min(out_bytes_, next.data.size());
    out_.pop_front();
  }
  return {};
}

void Connection::arm_output() {
  loop_.post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->update_interest();
  });
}

void Connection::update_interest() {
  if (closed_) return;
  const MutexLock lock(out_mutex_);
  loop_.change(socket_.descriptor(), EPOLLIN | (waits_for_output() ? EPOLLOUT : 0u));
}

Connection::Said Connection::said() const {
  if (handshake_.wants() != Handshake::kHelloSize) return Said::kPurpose;
  return undecided_ || (input_.empty() && !tls_name_) ? Said::kNothing : Said::kSomething;
}

Descriptor Connection::take_descriptor() {
  if (descriptors_.empty()) return {};
  Descriptor taken = std::move(descriptors_.front());
  descriptors_.pop_front();
  return taken;
}

Status Connection::hand_over(TcpStream* stream) {
  const MutexLock lock(out_mutex_);
  if (closed_ || is_unix_ || !out_.empty()) return fail(Code::kRemoteError, "the connection cannot be handed over");
  closed_ = true;
  sendable_ = false;
  events_ = ConnectionEvents{};
  loop_.unwatch(socket_.descriptor());
  stream->leftover.assign(input_.begin() + static_cast<std::ptrdiff_t>(taken_ + frame_size_), input_.end());
  stream->tls = socket_.release_tls();
  stream->socket = socket_.release(&stream->guard);
  return {};
}

bool Connection::taken() const {
  IpAddress address;
  std::uint32_t scope = 0;
  return closed_ ? was_taken_ : peer(&address, &scope);
}

void Connection::close() {
  if (closed_) return;
  was_taken_ = taken();
  closed_ = true;
  loop_.cancel(timer_);
  if (exit_watch_) exit_watch_->stop();
  exit_watch_.reset();
  events_ = ConnectionEvents{};
  const MutexLock lock(out_mutex_);
  sendable_ = false;
  out_.clear();
  out_bytes_ = 0;
  if (!socket_.valid()) return;
  loop_.unwatch(socket_.descriptor());
  socket_.close();
}

void Connection::fail_with(const Status& why) {
  if (closed_) return;
  const auto self = shared_from_this();  // the callback may drop the last reference
  const auto on_close = std::move(events_.on_close);
  close();
  if (on_close) on_close(why);
}

Status Connection::connect_error() const {
  int error = 0;
  socklen_t size = sizeof(error);
  if (::getsockopt(socket_.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error == 0) return {};
  return fail(Code::kSystemError, "{}", errno_text(error));
}

void Connection::on_events(std::uint32_t events) {
  if (closed_) return;
  const auto self = shared_from_this();
  if ((events & EPOLLOUT) != 0) {
    Status status = is_unix_ ? Status() : connect_error();
    if (status.ok()) {
      const MutexLock lock(out_mutex_);
      status = flush_locked();
    }
    if (!status.ok()) return fail_after_reading(status);
    update_interest();
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP)) == 0) return;
  bool ended = false;
  Status status = undecided_ ? decide_on_tls(&ended) : Status();
  if (status.ok() && !ended && !undecided_) status = read_all(false, &ended);
  if (status.ok() && !ended) status = after_reading();
  if (status.ok() && ended) status = fail(Code::kRemoteError, "the other end closed the connection");
  if (status.ok()) return;
  MutexLock lock(out_mutex_);
  if (!broken_.ok()) status = broken_;  // the system tells only once why a connection ended: who sent has heard it
  lock.unlock();
  fail_with(status);
}

/// Nothing can be sent any more: what came before counts all the same.
void Connection::fail_after_reading(const Status& why) {
  if (closed_) return;
  bool ended = false;
  if (handshake_.done()) static_cast<void>(read_all(true, &ended));
  fail_with(why);
}

void Connection::peer_exited() {
  if (closed_) return;
  const auto self = shared_from_this();
  bool ended = false;
  const Status status = read_all(true, &ended);  // a goodbye sent before the end must be seen before the end
  fail_with(status.ok() ? fail(Code::kRemoteError, "the process at the other end is gone") : status);
}

Status Connection::read_all(bool until_empty, bool* ended) {
  for (int i = 0; (until_empty || i < kReadsPerWake) && !closed_; ++i) {
    std::size_t got = 0;
    Descriptor passed;
    SocketState state = SocketState::kAgain;
    if (const Status status = receive(&got, &passed, &state); !status.ok()) return status;
    if (state == SocketState::kAgain) return {};
    if (state == SocketState::kClosed) {
      *ended = true;
      return {};
    }
    if (passed.valid()) {
      if (!handshake_.done() || descriptors_.size() >= kMaxWaitingDescriptors)
        return fail(Code::kRemoteError, "the other end sent a descriptor that nobody asked for");
      descriptors_.push_back(std::move(passed));
    }
    const auto data = loop_.scratch().first(got);
    input_.insert(input_.end(), data.begin(), data.end());
    TUTTI_TRY(take_input());
  }
  if (socket_.encrypted() && !closed_)  // what waits within the session does not make the socket ready
    loop_.post([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->on_events(EPOLLIN);
    });
  return {};
}

Status Connection::receive(std::size_t* got, Descriptor* passed, SocketState* state) {
  if (!socket_.encrypted()) return socket_.receive(loop_.scratch(), got, passed, state);
  const MutexLock lock(out_mutex_);
  return socket_.receive(loop_.scratch(), got, passed, state);
}

/// The side that was dialled serves both; whether plain text will do is for the owner to say, once it knows for what.
Status Connection::decide_on_tls(bool* ended) {
  std::byte first{};
  SocketState state = SocketState::kAgain;
  TUTTI_TRY(socket_.peek(&first, &state));
  *ended = state == SocketState::kClosed;
  if (state != SocketState::kDone) return {};
  undecided_ = false;
  return first == kTlsHandshake ? encrypt_as_server(handshake_.lookup(), &socket_, &tls_name_) : Status();
}

/// A TLS handshake goes on in both directions at once: what could not be sent may be possible now.
Status Connection::after_reading() {
  if (closed_ || !socket_.encrypted()) return {};
  {
    const MutexLock lock(out_mutex_);
    TUTTI_TRY(flush_locked());
  }
  update_interest();
  return {};
}

Status Connection::take_input() {
  for (;;) {
    std::size_t used = 0;
    TUTTI_TRY(handshake_.done() ? take_frame(&used) : take_handshake(&used));
    if (closed_) return {};
    if (used == 0) break;
    taken_ += used;
  }
  input_.erase(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(std::exchange(taken_, 0)));
  if (input_.empty() && input_.capacity() > kKeptInput) input_.shrink_to_fit();
  return {};
}

Status Connection::take_handshake(std::size_t* used) {
  const std::size_t size = handshake_.wants();
  if (input_.size() - taken_ < size) return {};
  std::vector<std::byte> answer;
  TUTTI_TRY(handshake_.consume(ByteView(input_).subspan(taken_, size), &answer));
  if (tls_name_ && (tls_name_->role != handshake_.role() || tls_name_->id != handshake_.key_id()))
    return fail(Code::kRemoteError, "the other end has encrypted for something else than it asks for");
  *used = size;
  if (!answer.empty()) TUTTI_TRY(put_raw(std::move(answer)));
  if (!handshake_.done()) return {};
  if (handshake_.is_client()) loop_.cancel(timer_);
  decoder_ = FrameCodec(handshake_.receive_key());
  {
    const MutexLock lock(out_mutex_);
    encoder_ = FrameCodec(handshake_.send_key());
    sendable_ = true;
  }
  try {
    watch_exit();
    if (const auto on_open = std::move(events_.on_open)) on_open(shared_from_this());
  } catch (...) {  // it is half admitted, and what comes next would be taken for a part of the handshake
    close();
    throw;
  }
  return {};
}

Status Connection::take_frame(std::size_t* used) {
  Frame frame;
  TUTTI_TRY(decoder_.decode(ByteView(input_).subspan(taken_), limit_, &frame));
  if (frame.size == 0) return {};
  loop_.cancel(std::exchange(timer_, 0));  // of one that was accepted: its first message has come
  *used = frame_size_ = frame.size;
  const auto on_message = events_.on_message;  // it may replace or clear the events
  return on_message ? on_message(frame.type, frame.payload) : Status();
}

}  // namespace tutti
