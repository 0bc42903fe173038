#include "net/unix_socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

namespace tutti {
namespace {

constexpr int kBacklog = SOMAXCONN;
constexpr int kSocketFlags = SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC;

struct Address {
  sockaddr_un data{};
  socklen_t size = 0;
};

Status abstract_address(std::string_view name, Address* address) {
  if (name.empty() || name.size() > UnixSocket::kMaxName)
    return fail(Code::kInternalError, "a unix socket's name has 1 to {} bytes, not {}", UnixSocket::kMaxName,
                name.size());
  address->data.sun_family = AF_UNIX;
  std::memcpy(address->data.sun_path + 1, name.data(), name.size());  // the first byte stays zero: an abstract name
  address->size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return {};
}

Status open_socket(Descriptor* descriptor) {
  descriptor->reset(::socket(AF_UNIX, kSocketFlags, 0));
  if (!descriptor->valid()) return fail(Code::kSystemError, "cannot create a unix socket: {}", errno_text());
  return {};
}

/// Keeps the first descriptor of the message and closes the others, so that a peer cannot use up this process's.
void take_descriptors(msghdr* header, Descriptor* passed) {
  for (cmsghdr* item = CMSG_FIRSTHDR(header); item != nullptr; item = CMSG_NXTHDR(header, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int value = -1;
      std::memcpy(&value, CMSG_DATA(item) + i * sizeof(int), sizeof(int));
      Descriptor taken(value);
      if (!passed->valid()) *passed = std::move(taken);
    }
  }
}

/// What errno means for a socket after a failed call.
Status unix_state(const char* what, SocketState* state) {
  // EAGAIN and EWOULDBLOCK are one number on Linux; ENOBUFS is what a full packet queue may answer.
  const bool later = errno == EAGAIN || errno == ENOBUFS;
  if (!later && errno != EPIPE && errno != ECONNRESET)
    return fail(Code::kSystemError, "cannot {} on a unix socket: {}", what, errno_text());
  *state = later ? SocketState::kAgain : SocketState::kClosed;
  return {};
}

}  // namespace

Status UnixSocket::listen(std::string_view name, UnixSocket* listener) {
  Address address;
  TUTTI_TRY(abstract_address(name, &address));
  Descriptor descriptor;
  TUTTI_TRY(open_socket(&descriptor));
  if (::bind(descriptor.get(), reinterpret_cast<const sockaddr*>(&address.data), address.size) != 0)
    return fail(Code::kSystemError, "cannot bind an abstract unix socket: {}", errno_text());
  if (::listen(descriptor.get(), kBacklog) != 0)
    return fail(Code::kSystemError, "cannot listen on an abstract unix socket: {}", errno_text());
  *listener = UnixSocket(std::move(descriptor));
  return {};
}

Status UnixSocket::connect(std::string_view name, UnixSocket* connection, SocketState* state) {
  Address address;
  TUTTI_TRY(abstract_address(name, &address));
  Descriptor descriptor;
  TUTTI_TRY(open_socket(&descriptor));
  int result = 0;
  do {
    result = ::connect(descriptor.get(), reinterpret_cast<const sockaddr*>(&address.data), address.size);
  } while (result != 0 && errno == EINTR);
  if (result == 0) {
    *connection = UnixSocket(std::move(descriptor));
    *state = SocketState::kDone;
    return {};
  }
  if (errno == ECONNREFUSED) {
    *state = SocketState::kClosed;
    return {};
  }
  if (errno == EAGAIN) {
    *state = SocketState::kAgain;
    return {};
  }
  return fail(Code::kSystemError, "cannot connect to a unix socket: {}", errno_text());
}

Status UnixSocket::pair(UnixSocket* first, UnixSocket* second) {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, kSocketFlags, 0, ends) != 0)
    return fail(Code::kSystemError, "cannot create a pair of unix sockets: {}", errno_text());
  *first = UnixSocket(Descriptor(ends[0]));
  *second = UnixSocket(Descriptor(ends[1]));
  return {};
}

Status UnixSocket::accept(UnixSocket* connection, SocketState* state) {
  const int value = ::accept4(descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (value >= 0) {
    *connection = UnixSocket(Descriptor(value));
    *state = SocketState::kDone;
    return {};
  }
  if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) {
    *state = SocketState::kAgain;
    return {};
  }
  return fail(Code::kSystemError, "cannot accept a connection on a unix socket: {}", errno_text());
}

Status UnixSocket::send(std::span<const std::byte> message, int passed, SocketState* state) {
  if (message.empty() || message.size() > kMaxMessage.value)
    return fail(Code::kInternalError, "a unix socket's message has 1 to {} bytes, not {}", kMaxMessage.value,
                message.size());
  iovec part{const_cast<std::byte*>(message.data()), message.size()};
  alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (passed >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    cmsghdr* item = CMSG_FIRSTHDR(&header);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(item), &passed, sizeof(int));
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(descriptor(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) {  // a packet is sent whole or not at all
    *state = SocketState::kDone;
    return {};
  }
  return unix_state("send", state);
}

Status UnixSocket::receive(std::span<std::byte> buffer, std::size_t* size, Descriptor* passed, SocketState* state) {
  passed->reset();
  *size = 0;
  iovec part{buffer.data(), buffer.size()};
  alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof(int))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  ssize_t got = 0;
  // A peer that closes while it has not read everything leaves an error, which the system tells once and before the
  // messages that are still there: they count.
  bool reset = false;
  do {
    reset = got < 0 && errno == ECONNRESET;
    got = ::recvmsg(descriptor(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && (errno == EINTR || (errno == ECONNRESET && !reset)));
  if (got < 0) return unix_state("receive", state);
  take_descriptors(&header, passed);
  if (got == 0) {  // empty messages are never sent, so this is the end
    passed->reset();
    *state = SocketState::kClosed;
    return {};
  }
  if ((header.msg_flags & MSG_TRUNC) != 0)
    return fail(Code::kSystemError, "a message on a unix socket is larger than the {} bytes expected", buffer.size());
  if ((header.msg_flags & MSG_CTRUNC) != 0 && !passed->valid())
    return fail(Code::kSystemError, "cannot take over a descriptor from a unix socket: {}", errno_text(EMFILE));
  *size = static_cast<std::size_t>(got);
  *state = SocketState::kDone;
  return {};
}

Status UnixSocket::credentials(PeerCredentials* peer) const {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (::getsockopt(descriptor(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0)
    return fail(Code::kSystemError, "cannot read a unix socket's peer credentials: {}", errno_text());
  *peer = PeerCredentials{credentials.pid, credentials.uid, credentials.gid};
  return {};
}

}  // namespace tutti
