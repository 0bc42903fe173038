#include "net/socket.h"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <string_view>

#include "core/log.h"
#include "net/fork_guard.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77  // Linux 6.5
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434  // Linux 5.3
#endif

namespace tutti {
namespace {

void set_option(int descriptor, int level, int option, int value) {
  ::setsockopt(descriptor, level, option, &value, sizeof(value));  // each is a refinement: without it things still work
}

/// Small messages at once, and a host that is gone is noticed within half a minute, or as set_timeout() says.
void tune(int descriptor) {
  set_option(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPCNT, 4);
  set_option(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);  // the same for what was sent and not taken
}

/// Keeps a descriptor closed in forked children.
struct ForkGuard {
  explicit ForkGuard(int guarded) : descriptor(guarded) {}
  ~ForkGuard() { unguard_descriptor(descriptor); }
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;
  const int descriptor;
};

Status tcp_state(const char* what, SocketState* state) {
  // Without memory for it now, there may be some in a moment.
  const bool later = errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == ENOMEM;
  if (!later && errno != EPIPE && errno != ECONNRESET)
    return fail(Code::kSystemError, "cannot {}: {}", what, errno_text());
  *state = later ? SocketState::kAgain : SocketState::kClosed;
  return {};
}

/// Failures of system calls end with the text of their errno.
bool ends_with_error(const Status& why, int error) { return why.text().ends_with(errno_text(error)); }

}  // namespace

bool is_refusal(const Status& why) { return ends_with_error(why, ECONNREFUSED); }

bool is_lack(const Status& why) {
  return ends_with_error(why, EMFILE) || ends_with_error(why, ENFILE) || ends_with_error(why, ENOMEM) ||
         ends_with_error(why, ENOBUFS);
}

bool is_in_use(const Status& why) { return ends_with_error(why, EADDRINUSE); }

bool is_unreachable(const Status& why) {
  return ends_with_error(why, ETIMEDOUT) || ends_with_error(why, EHOSTUNREACH) || ends_with_error(why, ENETUNREACH);
}

Socket::Socket(UnixSocket socket) : unix_(std::move(socket)) { guard_descriptor(descriptor()); }

Socket::Socket(Descriptor tcp) : tcp_(std::move(tcp)) {
  tune(descriptor());
  guard_descriptor(descriptor());
}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this == &other) return *this;
  close();
  unix_ = std::move(other.unix_);
  tcp_ = std::move(other.tcp_);
  tls_ = std::move(other.tls_);
  return *this;
}

void Socket::close() {
  if (!valid()) return;
  unguard_descriptor(descriptor());
  tls_.reset();
  unix_.close();
  tcp_.reset();
}

Status Socket::connect(const IpAddress& address, std::uint16_t port, std::uint32_t scope, Socket* connected) {
  const int family = address.family == 4 ? AF_INET : AF_INET6;
  Descriptor descriptor(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!descriptor.valid()) return fail(Code::kSystemError, "cannot create a TCP socket: {}", errno_text());
  // The system may give this end the port where somebody is about to listen: he can, all the same.
  set_option(descriptor.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  choose_congestion(descriptor.get());
  const SocketAddress to = socket_address(address, port, scope);
  const int result = ::connect(descriptor.get(), reinterpret_cast<const sockaddr*>(&to.data), to.size);
  if (result != 0 && errno != EINPROGRESS && errno != EINTR)
    return fail(Code::kSystemError, "cannot connect to {}: {}", text_of(address, port), errno_text());
  *connected = Socket(std::move(descriptor));
  return {};
}

void Socket::set_timeout(double seconds, bool output) {
  if (is_unix()) return;
  const double least = std::clamp(seconds, 1.0, 86400.0);
  const int probes = static_cast<int>(std::ceil(least));
  set_option(descriptor(), IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set_option(descriptor(), IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set_option(descriptor(), IPPROTO_TCP, TCP_KEEPCNT, probes);
  // The system looks at it when a probe is due, once a second, and before that probe is sent: a little more than asked
  // for, so that the last probe within the time still counts.
  set_option(descriptor(), IPPROTO_TCP, TCP_USER_TIMEOUT, output ? static_cast<int>(least * 1000) + 200 : 0);
}

bool Socket::peer(IpAddress* address, std::uint32_t* scope) const {
  sockaddr_storage at{};
  socklen_t size = sizeof(at);
  *scope = 0;
  if (is_unix() || !valid() || ::getpeername(descriptor(), reinterpret_cast<sockaddr*>(&at), &size) != 0) return false;
  if (!from_socket_address(reinterpret_cast<const sockaddr*>(&at), address)) return false;
  if (address->family == 6) *scope = reinterpret_cast<const sockaddr_in6*>(&at)->sin6_scope_id;
  address->unmap();
  return true;
}

bool Socket::own(IpAddress* address, std::uint16_t* port) const {
  sockaddr_storage at{};
  socklen_t size = sizeof(at);
  if (is_unix() || !valid() || ::getsockname(descriptor(), reinterpret_cast<sockaddr*>(&at), &size) != 0) return false;
  *port = ntohs(at.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&at)->sin6_port
                                         : reinterpret_cast<const sockaddr_in*>(&at)->sin_port);
  if (!from_socket_address(reinterpret_cast<const sockaddr*>(&at), address)) return false;
  address->unmap();
  return true;
}

void choose_congestion(int descriptor) {
  for (const std::string_view name : {"cubic", "reno"}) {
    if (::setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name.data(), name.size()) != 0) continue;
    static std::atomic<bool> told{false};  // relaxed: only who says it first matters
    if (!told.exchange(true, std::memory_order_relaxed)) log(LogLevel::kDebug, {}, "congestion control: {}", name);
    return;
  }
}

bool all_acknowledged(int descriptor) {
  int queued = 0;
  return ::ioctl(descriptor, SIOCOUTQ, &queued) != 0 || queued == 0;
}

void acknowledge(int descriptor) {
  const int on = 1;
  (void)::setsockopt(descriptor, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
}

bool Socket::delivered() const { return is_unix() || all_acknowledged(tcp_.get()); }

void Socket::acknowledge() const {
  if (tcp_.valid()) tutti::acknowledge(tcp_.get());
}

Descriptor Socket::release(std::shared_ptr<const void>* guard) {
  *guard = std::make_shared<const ForkGuard>(tcp_.get());
  return std::move(tcp_);
}

Status Socket::connect(const std::string& socket_name, Socket* connected, SocketState* state) {
  UnixSocket socket;
  TUTTI_TRY(UnixSocket::connect(socket_name, &socket, state));
  if (*state == SocketState::kDone) *connected = Socket(std::move(socket));
  return {};
}

Status Socket::send(ByteView data, int passed, std::size_t* sent, SocketState* state) {
  *sent = 0;
  if (is_unix()) {
    const ByteView packet = data.first(std::min(data.size(), UnixSocket::kMaxMessage.value));
    TUTTI_TRY(unix_.send(packet, passed, state));
    if (*state == SocketState::kDone) *sent = packet.size();
    return {};
  }
  if (tls_) return tls_->send(data, sent, state);
  const ssize_t result = ::send(tcp_.get(), data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (result < 0) return tcp_state("send to a peer", state);
  *sent = static_cast<std::size_t>(result);
  *state = SocketState::kDone;
  return {};
}

Status Socket::receive(std::span<std::byte> buffer, std::size_t* got, Descriptor* passed, SocketState* state) {
  if (is_unix()) return unix_.receive(buffer, got, passed, state);
  if (tls_) return tls_->receive(buffer, got, state);
  *got = 0;
  const ssize_t result = ::recv(tcp_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (result < 0) return tcp_state("receive from a peer", state);
  *got = static_cast<std::size_t>(result);
  *state = result == 0 ? SocketState::kClosed : SocketState::kDone;
  return {};
}

Status Socket::peek(std::byte* first, SocketState* state) const {
  const ssize_t result = ::recv(tcp_.get(), first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (result < 0) return tcp_state("receive from a peer", state);
  *state = result == 0 ? SocketState::kClosed : SocketState::kDone;
  return {};
}

Status Socket::check_peer(pid_t* process) const {
  *process = 0;
  if (!is_unix()) return {};
  PeerCredentials peer;
  TUTTI_TRY(unix_.credentials(&peer));
  if (peer.user != ::geteuid() && peer.user != 0)
    return fail(Code::kRemoteError, "a process of another user ({}) is at the other end of a unix socket", peer.user);
  *process = peer.process;
  return {};
}

Descriptor Socket::peer_pidfd() const {
  if (!is_unix()) return {};
  int value = -1;
  socklen_t size = sizeof(value);
  if (::getsockopt(descriptor(), SOL_SOCKET, SO_PEERPIDFD, &value, &size) == 0) return Descriptor(value);
  PeerCredentials peer;
  if (!unix_.credentials(&peer).ok() || peer.process <= 0) return {};  // 0: it lives in another pid namespace
  // The number may have been reused between the connection and now; then the socket is closed too, and the caller,
  // who reads on, notices that.
  return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, peer.process, 0)));
}

}  // namespace tutti
