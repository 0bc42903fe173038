// The bare other end of a connection under test.
#pragma once

#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "bytes.h"
#include "net/connection.h"
#include "support/frames.h"

namespace tutti::fuzz {

/// A socket for the connection under test, and its other end.
struct SocketPair {
  Descriptor other;
  Socket tested;
};

/// As within a host.
inline SocketPair unix_pair() {
  int ends[2] = {-1, -1};
  demand(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0, "a pair of sockets");
  return {Descriptor(ends[0]), Socket(UnixSocket(Descriptor(ends[1])))};
}

/// As between hosts, as far as the connection can see.
inline SocketPair stream_pair() {
  int ends[2] = {-1, -1};
  demand(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0, "a pair of sockets");
  return {Descriptor(ends[0]), Socket(Descriptor(ends[1]))};
}

/// Feeds the connection, which handles at once what it gets: in the thread of its loop, or where that does not run.
class Speaker {
 public:
  Speaker(EventLoop& loop, SocketPair sockets, Handshake handshake, ConnectionEvents events)
      : other_(std::move(sockets.other)) {
    const Status started =
        Connection::start(loop, std::move(sockets.tested), std::move(handshake), std::move(events), &connection_);
    demand(started.ok(), "a connection starts");
  }
  ~Speaker() { connection_->close(); }
  Speaker(const Speaker&) = delete;
  Speaker& operator=(const Speaker&) = delete;

  const std::shared_ptr<Connection>& connection() const { return connection_; }
  void feed(ByteView data) {
    if (!data.empty()) (void)::send(other_.get(), data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    connection_->on_events(EPOLLIN);
  }
  std::vector<std::byte> answer() {
    std::vector<std::byte> data(4096);
    const ssize_t got = ::recv(other_.get(), data.data(), data.size(), MSG_DONTWAIT);
    data.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return data;
  }
  /// Takes what the tested end has to say, so that there is room for more.
  void listen() {
    while (!answer().empty()) continue;
  }

  /// The handshake of a client, with proofs that are right.
  void pass(Role role, const KeyId& id, const Key& secret) {
    Handshake client = Handshake::client(role, id, secret);
    std::vector<std::byte> hello;
    std::vector<std::byte> proof;
    demand(client.start(&hello).ok(), "a handshake can start");
    feed(hello);
    demand(client.consume(answer(), &proof).ok(), "the challenge is good");
    feed(proof);
    demand(connection_->open(), "who has the secret is let in");
    key_ = client.send_key();
  }
  /// A frame with a right code, whatever it says, in two parts.
  void say(ByteView header_and_payload, std::size_t first_part) {
    const std::vector<std::byte> whole = sealed({header_and_payload.begin(), header_and_payload.end()});
    const std::size_t first = std::min(first_part, whole.size());
    feed(ByteView(whole).first(first));
    feed(ByteView(whole).subspan(first));
  }
  void say(MessageType type, ByteView payload) { feed(sealed(test::frame_of(type, payload))); }
  /// With a descriptor of so much memory.
  void say_with_memory(MessageType type, ByteView payload, std::size_t bytes) {
    const Descriptor memory(::memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    demand(::ftruncate(memory.get(), static_cast<off_t>(bytes)) == 0, "memory to pass on");
    std::vector<std::byte> data = sealed(test::frame_of(type, payload));
    iovec part{data.data(), data.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int descriptor = memory.get();
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    (void)::sendmsg(other_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    connection_->on_events(EPOLLIN);
  }

 private:
  std::vector<std::byte> sealed(std::vector<std::byte> frame) {
    demand(test::sign(key_, said_++, &frame).ok(), "a code is made");
    return frame;
  }

  Descriptor other_;
  std::shared_ptr<Connection> connection_;
  Key key_{};
  std::uint64_t said_ = 0;
};

}  // namespace tutti::fuzz
