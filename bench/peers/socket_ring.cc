#include "socket_ring.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace tutti::peers {
namespace {

/// The most that one call hands to the kernel, so that both directions go on in turn: of 64 KiB to 4 MiB the fastest.
constexpr std::size_t kMostACall = 1 << 20;

/// A socket with the congestion control of Tutti's sockets, which must be chosen before it connects or listens.
int make_socket() {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  for (const std::string_view name : {"cubic", "reno"})
    if (setsockopt(made, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0) break;
  return made;
}

/// A listener on loopback, at a port that the kernel chooses.
int listen_on_loopback(sockaddr_in* address) {
  const int listener = make_socket();
  *address = {};
  address->sin_family = AF_INET;
  address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof *address;
  auto* const any = reinterpret_cast<sockaddr*>(address);
  if (listener >= 0 && bind(listener, any, size) == 0 && listen(listener, 1) == 0 &&
      getsockname(listener, any, &size) == 0)
    return listener;
  return -1;
}

int connect_to(const std::string& address) {
  const int connected = make_socket();
  const bool good = connected >= 0 && connect(connected, reinterpret_cast<const sockaddr*>(address.data()),
                                              static_cast<socklen_t>(address.size())) == 0;
  return good ? connected : -1;
}

bool send_at_once(int socket) {
  const int on = 1;
  return setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0;
}

/// False: errno says why nothing is moved any more.
template <class Call>
bool move_one_way(Flow* flow, const Call& call) {
  if (flow->left == 0) return true;
  const ssize_t got = call(flow->buffer + flow->at, flow->next());
  if (got > 0) flow->advance(static_cast<std::size_t>(got));
  if (got == 0) errno = ECONNRESET;
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

}  // namespace

std::size_t Flow::next() const { return std::min({left, size - at, kMostACall}); }

void Flow::advance(std::size_t bytes) {
  left -= bytes;
  at = (at + bytes) % size;
}

std::unique_ptr<SocketRing> SocketRing::connect(const Seat& seat, std::string* text) {
  sockaddr_in own;
  const int listener = listen_on_loopback(&own);
  std::vector<std::string> addresses;
  seat.gather(std::string(reinterpret_cast<const char*>(&own), sizeof own), &addresses);
  const bool shares = seat.ranks() == 2;
  const bool connects = !shares || seat.rank() == 0, accepts = !shares || seat.rank() == 1;
  const auto next = static_cast<std::size_t>((seat.rank() + 1) % seat.ranks());
  const int to = listener >= 0 && connects ? connect_to(addresses[next]) : -1;
  const int from = listener >= 0 && accepts ? accept4(listener, nullptr, nullptr, SOCK_CLOEXEC) : -1;
  close(listener);
  if ((connects && (to < 0 || !send_at_once(to))) || (accepts && (from < 0 || !send_at_once(from)))) {
    *text = std::string("a connection over loopback: ") + std::strerror(errno);
    return nullptr;
  }
  return std::unique_ptr<SocketRing>(new SocketRing(seat, connects ? to : from, accepts ? from : to));
}

SocketRing::SocketRing(const Seat& seat, int to, int from)
    : to_(to), from_(from), is_crowded_(static_cast<long>(seat.ranks()) > sysconf(_SC_NPROCESSORS_ONLN)) {}

SocketRing::~SocketRing() {
  close(to_);
  if (from_ != to_) close(from_);
}

bool SocketRing::move(Flow* sent, Flow* received, std::string* text) const {
  const std::size_t before = sent->left + received->left;
  if (!move_one_way(sent,
                    [&](char* data, std::size_t size) { return send(to_, data, size, MSG_DONTWAIT | MSG_NOSIGNAL); }) ||
      !move_one_way(received, [&](char* data, std::size_t size) { return recv(from_, data, size, MSG_DONTWAIT); }))
    return *text = std::string("a socket: ") + std::strerror(errno), false;
  if (sent->left + received->left == before && is_crowded_) sched_yield();
  return true;
}

}  // namespace tutti::peers
