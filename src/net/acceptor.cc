#include "net/acceptor.h"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <utility>

#include "core/log.h"
#include "net/fork_guard.h"

namespace tutti {
namespace {

constexpr int kBacklog = SOMAXCONN;
constexpr int kAcceptsPerWake = 64;
constexpr std::size_t kLeastStrangers = 32;
constexpr std::chrono::milliseconds kPauseWithoutDescriptors{100};
/// A lack of descriptors may end by itself. When it has lasted for this many pauses, a second, the joins end with an
/// error that names it.
constexpr int kPausesThatAreALack = 10;

Status bind_tcp(int family, std::uint16_t port, Descriptor* listener) {
  listener->reset(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener->valid()) return fail(Code::kSystemError, "cannot create a TCP socket: {}", errno_text());
  const int on = 1;
  const int off = 0;
  ::setsockopt(listener->get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (family == AF_INET6) ::setsockopt(listener->get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  choose_congestion(listener->get());
  IpAddress any;
  any.family = family == AF_INET ? 4 : 6;
  const SocketAddress at = socket_address(any, port);
  if (::bind(listener->get(), reinterpret_cast<const sockaddr*>(&at.data), at.size) != 0 ||
      ::listen(listener->get(), kBacklog) != 0)
    return fail(Code::kSystemError, "cannot listen on TCP port {}: {}", port, errno_text());
  return {};
}

Status bind_in_range(std::uint16_t first, std::uint16_t last, Descriptor* listener) {
  Status status;
  for (std::uint32_t port = first; port <= std::max(first, last); ++port) {
    status = bind_tcp(AF_INET6, static_cast<std::uint16_t>(port), listener);  // serves IPv4 as well
    if (!status.ok()) status = bind_tcp(AF_INET, static_cast<std::uint16_t>(port), listener);
    if (status.ok()) return status;
  }
  if (last > first) return fail(Code::kSystemError, "no TCP port is free in {}-{}: {}", first, last, status.text());
  return status;
}

std::uint16_t port_of(int descriptor) {
  sockaddr_storage at{};
  socklen_t size = sizeof(at);
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&at), &size) != 0) return 0;
  return ntohs(at.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in*>(&at)->sin_port
                                       : reinterpret_cast<const sockaddr_in6*>(&at)->sin6_port);
}

/// A host has one IPv4 address, but all the IPv6 addresses of a network.
std::string origin_of(const IpAddress& address) {
  constexpr std::size_t kNetworkBytes = 8;
  return to_hex(ByteView(address.bytes).first(address.family == 6 ? kNetworkBytes : address.bytes.size()));
}

}  // namespace

PendingConnections::PendingConnections(EventLoop& loop, Callbacks callbacks)
    : loop_(loop), callbacks_(std::move(callbacks)) {}

// The limit may change while the process runs.
std::size_t PendingConnections::most() const {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kLeastStrangers;
  return std::clamp<std::size_t>(limit.rlim_cur / 8, kLeastStrangers, kMostPending);
}

PendingConnections::~PendingConnections() {
  for (const Pending& pending : unauthenticated_) pending.connection->close();
  for (const auto& connection : local_) connection->close();
}

void PendingConnections::receive(Socket connected) {
  const bool unix = connected.is_unix();
  if (!unix && !callbacks_.expected(connected)) return;
  if (!unix && unauthenticated_.size() >= most()) drop_one();
  Pending pending;
  std::uint32_t scope = 0;
  connected.peer(&pending.from, &scope);
  const auto self_of = std::make_shared<const Connection*>(nullptr);
  ConnectionEvents events;
  events.on_open = [this](const std::shared_ptr<Connection>& connection) {
    forget(connection.get());
    callbacks_.admit(connection);
  };
  events.on_close = [this, self_of](const Status& why) {
    log(LogLevel::kDebug, {}, "a connection was refused: {}", why.text());
    forget(*self_of);
  };
  const Status status = Connection::start(loop_, std::move(connected), Handshake::server(callbacks_.lookup),
                                          std::move(events), &pending.connection);
  if (!status.ok()) return log(LogLevel::kDebug, {}, "a connection was refused: {}", status.text());
  const std::shared_ptr<Connection> connection = pending.connection;
  *self_of = connection.get();
  if (unix)
    local_.push_back(connection);
  else
    unauthenticated_.push_back(std::move(pending));
  // A rank sends its hello as soon as it is connected. Reading it now keeps the rank from being dropped as silent.
  connection->on_events(EPOLLIN);
}

void PendingConnections::drop_one() {
  Connection::Said least = Connection::Said::kPurpose;
  for (const Pending& pending : unauthenticated_) least = std::min(least, pending.connection->said());
  std::map<std::string, std::vector<std::size_t>> by_origin;
  std::size_t most = 0;
  for (std::size_t i = 0; i < unauthenticated_.size(); ++i) {
    if (unauthenticated_[i].connection->said() != least) continue;
    // A rank is hardly ever among those that have said nothing, so the origin of these does not matter.
    auto& same = by_origin[least == Connection::Said::kNothing ? "" : origin_of(unauthenticated_[i].from)];
    same.push_back(i);
    most = std::max(most, same.size());
  }
  std::vector<std::size_t> drawn_from;
  for (const auto& [origin, those] : by_origin)
    if (those.size() == most) drawn_from.insert(drawn_from.end(), those.begin(), those.end());
  std::array<std::byte, 8> random{};
  if (drawn_from.empty() || !random_bytes(random).ok()) return;
  std::uint64_t drawn = 0;
  std::memcpy(&drawn, random.data(), sizeof drawn);
  const auto victim = unauthenticated_.begin() + static_cast<std::ptrdiff_t>(drawn_from[drawn % drawn_from.size()]);
  victim->connection->close();
  unauthenticated_.erase(victim);
}

void PendingConnections::forget(const Connection* connection) {
  std::erase_if(unauthenticated_, [connection](const Pending& item) { return item.connection.get() == connection; });
  std::erase_if(local_, [connection](const auto& item) { return item.get() == connection; });
}

/// The listening descriptor. A subclass of the handler of its own, so that the loop may hold it a little longer than
/// the acceptor lives.
class Acceptor::Source final : public EventHandler, public std::enable_shared_from_this<Source> {
 public:
  Source(EventLoop& loop, PendingConnections& pending, UnixSocket socket, Descriptor tcp)
      : loop_(loop), pending_(pending), unix_(std::move(socket)), tcp_(std::move(tcp)) {
    guard_descriptor(descriptor());
  }
  ~Source() override { unguard_descriptor(descriptor()); }
  int descriptor() const { return unix_.valid() ? unix_.descriptor() : tcp_.get(); }
  void stop() { stopped_ = true; }

  void on_events(std::uint32_t) override {
    for (int i = 0; i < kAcceptsPerWake && !stopped_; ++i) {
      Socket connected;
      SocketState state = SocketState::kAgain;
      const Status status = accept(&connected, &state);
      if (!status.ok()) return pause(status);
      if (state != SocketState::kDone) return;
      pauses_ = 0;
      pending_.receive(std::move(connected));
    }
  }

 private:
  Status accept(Socket* connected, SocketState* state) {
    if (unix_.valid()) {
      UnixSocket socket;
      TUTTI_TRY(unix_.accept(&socket, state));
      if (*state == SocketState::kDone) *connected = Socket(std::move(socket));
      return {};
    }
    Descriptor accepted(::accept4(tcp_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (accepted.valid()) {
      *connected = Socket(std::move(accepted));
      *state = SocketState::kDone;
      return {};
    }
    // Errors of the connection that was to be accepted come here too (accept(2)): only a lack of resources is ours.
    if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS) {
      *state = SocketState::kAgain;
      return {};
    }
    return fail(Code::kSystemError, "cannot accept a connection: {}", errno_text());
  }

  /// The connection stays in the queue and the descriptor stays ready: without a pause the loop would spin.
  void pause(const Status& why) {
    if (++pauses_ == 1) log(LogLevel::kWarn, {}, "{}: trying again ten times a second", why.text());
    // Perhaps only a stranger dials, so what there is goes on. If it is a peer that waits, this line is the reason.
    if (pauses_ == kPausesThatAreALack) log(LogLevel::kError, {}, "{}, for a second by now", why.text());
    if (pauses_ % kPausesThatAreALack == 0) pending_.lacks(why);
    loop_.after(kPauseWithoutDescriptors, [weak = weak_from_this()] {
      if (const auto self = weak.lock(); self && !self->stopped_) self->loop_.change(self->descriptor(), EPOLLIN);
    });
    loop_.change(descriptor(), 0);  // when the end of the pause is sure
  }

  EventLoop& loop_;
  PendingConnections& pending_;
  UnixSocket unix_;
  Descriptor tcp_;
  bool stopped_ = false;
  int pauses_ = 0;  // since a connection was accepted: there was no descriptor for the next one
};

Acceptor::Acceptor(EventLoop& loop, std::shared_ptr<Source> source, std::uint16_t port)
    : loop_(loop), source_(std::move(source)), port_(port) {}

Acceptor::~Acceptor() {
  source_->stop();
  loop_.unwatch(source_->descriptor());
}

bool Acceptor::serves_ipv6() const {
  sockaddr_storage at{};
  socklen_t size = sizeof(at);
  return ::getsockname(source_->descriptor(), reinterpret_cast<sockaddr*>(&at), &size) == 0 && at.ss_family == AF_INET6;
}

Status Acceptor::open(EventLoop& loop, std::shared_ptr<Source> source, std::uint16_t port,
                      std::unique_ptr<Acceptor>* acceptor) {
  TUTTI_TRY(loop.watch(source->descriptor(), EPOLLIN, source));
  acceptor->reset(new Acceptor(loop, std::move(source), port));
  return {};
}

Status Acceptor::listen_tcp(EventLoop& loop, PendingConnections& pending, std::uint16_t first, std::uint16_t last,
                            std::unique_ptr<Acceptor>* acceptor) {
  Descriptor listener;
  TUTTI_TRY(bind_in_range(first, last, &listener));
  const std::uint16_t port = port_of(listener.get());
  return open(loop, std::make_shared<Source>(loop, pending, UnixSocket(), std::move(listener)), port, acceptor);
}

Status Acceptor::listen_unix(EventLoop& loop, PendingConnections& pending, const std::string& name,
                             std::unique_ptr<Acceptor>* acceptor) {
  UnixSocket listener;
  TUTTI_TRY(UnixSocket::listen(name, &listener));
  return open(loop, std::make_shared<Source>(loop, pending, std::move(listener), Descriptor()), 0, acceptor);
}

}  // namespace tutti
