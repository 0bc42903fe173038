// Covers net/unix_socket.cc.
// Unix sockets: packets, descriptors, credentials, and what a peer may do wrong.
#include "net/unix_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "support/process_usage.h"

namespace tutti::test {
namespace {

using Buffer = std::array<std::byte, 256>;

class UnixSocketPair : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(UnixSocket::pair(&first, &second).ok()); }
  SocketState receive() {
    const Status status = second.receive(buffer, &size, &passed, &state);
    EXPECT_TRUE(status.ok()) << status.text();
    return state;
  }
  UnixSocket first;
  UnixSocket second;
  Buffer buffer{};
  std::size_t size = 0;
  Descriptor passed;
  SocketState state = SocketState::kDone;
};

TEST_F(UnixSocketPair, WhatWasSentBeforeTheEndIsReadThoughTheSenderHadNotReadAll) {
  const std::array<std::byte, 3> message{std::byte{1}, std::byte{2}, std::byte{3}};
  ASSERT_TRUE(second.send(message, -1, &state).ok());  // is never read
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(first.send(message, -1, &state).ok());
  first.close();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(receive(), SocketState::kDone);
    EXPECT_EQ(size, message.size());
  }
  EXPECT_EQ(receive(), SocketState::kClosed);
  EXPECT_EQ(receive(), SocketState::kClosed);
}

TEST(UnixSocket, ConnectsToAListenerAndToNothingElse) {
  const std::string name = "tutti-test-" + std::to_string(::getpid()) + std::string("\0binary", 7);
  UnixSocket connection;
  SocketState state = SocketState::kDone;
  ASSERT_TRUE(UnixSocket::connect(name, &connection, &state).ok());
  EXPECT_EQ(state, SocketState::kClosed);

  UnixSocket listener;
  UnixSocket accepted;
  ASSERT_TRUE(UnixSocket::listen(name, &listener).ok());
  ASSERT_TRUE(listener.accept(&accepted, &state).ok());
  EXPECT_EQ(state, SocketState::kAgain);
  ASSERT_TRUE(UnixSocket::connect(name, &connection, &state).ok());
  EXPECT_EQ(state, SocketState::kDone);
  ASSERT_TRUE(listener.accept(&accepted, &state).ok());
  EXPECT_EQ(state, SocketState::kDone);
  for (const UnixSocket* end : {&connection, &accepted}) {
    PeerCredentials peer;
    ASSERT_TRUE(end->credentials(&peer).ok());
    EXPECT_EQ(peer.process, ::getpid());
    EXPECT_EQ(peer.user, ::getuid());
    EXPECT_EQ(peer.group, ::getgid());
    EXPECT_NE(::fcntl(end->descriptor(), F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_NE(::fcntl(end->descriptor(), F_GETFL) & O_NONBLOCK, 0);
  }
  UnixSocket again;
  EXPECT_EQ(UnixSocket::listen(name, &again).code(), Code::kSystemError);
  listener.close();
  EXPECT_TRUE(UnixSocket::listen(name, &again).ok());  // gone with its socket
}

TEST(UnixSocket, NamesHaveALimit) {
  UnixSocket listener;
  EXPECT_TRUE(UnixSocket::listen(std::string(UnixSocket::kMaxName, 'x'), &listener).ok());
  EXPECT_EQ(UnixSocket::listen(std::string(UnixSocket::kMaxName + 1, 'x'), &listener).code(), Code::kInternalError);
  EXPECT_EQ(UnixSocket::listen("", &listener).code(), Code::kInternalError);
}

TEST_F(UnixSocketPair, OneSendIsOneReceive) {
  EXPECT_EQ(receive(), SocketState::kAgain);
  const std::array<std::byte, 3> small{std::byte{1}, std::byte{2}, std::byte{3}};
  ASSERT_TRUE(first.send(small, -1, &state).ok());
  ASSERT_TRUE(first.send(std::span(small).first(1), -1, &state).ok());
  EXPECT_EQ(receive(), SocketState::kDone);
  EXPECT_EQ(size, 3u);
  EXPECT_EQ(buffer[2], std::byte{3});
  EXPECT_FALSE(passed.valid());
  EXPECT_EQ(receive(), SocketState::kDone);
  EXPECT_EQ(size, 1u);
  first.close();
  EXPECT_EQ(receive(), SocketState::kClosed);
  ASSERT_TRUE(second.send(small, -1, &state).ok());
  EXPECT_EQ(state, SocketState::kClosed);
}

TEST_F(UnixSocketPair, AFullQueueSaysAgainAndLosesNothing) {
  const std::vector<std::byte> message(10'000);
  int sent = 0;
  while (true) {
    ASSERT_TRUE(first.send(message, -1, &state).ok());
    if (state == SocketState::kAgain) break;
    ASSERT_LT(++sent, 100'000);
  }
  ASSERT_GT(sent, 0);
  std::vector<std::byte> large(message.size());
  for (int i = 0; i < sent; ++i) {
    ASSERT_TRUE(second.receive(large, &size, &passed, &state).ok());
    ASSERT_EQ(state, SocketState::kDone);
    EXPECT_EQ(size, message.size());
  }
  EXPECT_EQ(receive(), SocketState::kAgain);
}

TEST_F(UnixSocketPair, MessagesHaveALimit) {
  const std::vector<std::byte> largest(UnixSocket::kMaxMessage.value);
  ASSERT_TRUE(first.send(largest, -1, &state).ok());
  EXPECT_EQ(state, SocketState::kDone);
  EXPECT_EQ(second.receive(buffer, &size, &passed, &state).code(), Code::kSystemError);  // does not fit
  const std::vector<std::byte> larger(UnixSocket::kMaxMessage.value + 1);
  EXPECT_EQ(first.send(larger, -1, &state).code(), Code::kInternalError);
  EXPECT_EQ(first.send({}, -1, &state).code(), Code::kInternalError);
}

TEST_F(UnixSocketPair, PassesADescriptor) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::byte note{7};
  ASSERT_TRUE(first.send({&note, 1}, ends[1], &state).ok());
  ::close(ends[1]);
  ASSERT_EQ(receive(), SocketState::kDone);
  ASSERT_TRUE(passed.valid());
  EXPECT_NE(::fcntl(passed.get(), F_GETFD) & FD_CLOEXEC, 0);
  ASSERT_EQ(::write(passed.get(), "x", 1), 1);
  char got = 0;
  ASSERT_EQ(::read(ends[0], &got, 1), 1);
  EXPECT_EQ(got, 'x');
  ::close(ends[0]);
}

/// Sends `count` descriptors at once, as only a peer with other code would.
void send_many(int socket, int count) {
  std::byte note{1};
  iovec part{&note, 1};
  std::vector<std::byte> control(CMSG_SPACE(sizeof(int) * static_cast<std::size_t>(count)));
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* item = CMSG_FIRSTHDR(&header);
  item->cmsg_level = SOL_SOCKET;
  item->cmsg_type = SCM_RIGHTS;
  item->cmsg_len = CMSG_LEN(sizeof(int) * static_cast<std::size_t>(count));
  const std::vector<int> values(static_cast<std::size_t>(count), socket);
  std::memcpy(CMSG_DATA(item), values.data(), values.size() * sizeof(int));
  ASSERT_EQ(::sendmsg(socket, &header, 0), 1);
}

TEST_F(UnixSocketPair, FurtherDescriptorsAreClosed) {
  const std::size_t before = open_descriptors();
  std::vector<int> counts{1, 2};
#if defined(__x86_64__)  // user-mode emulators, under which other processors are tested, keep what the kernel would
                         // close
  counts.insert(counts.end(), {3, 20});
#endif
  for (const int count : counts) {
    send_many(first.descriptor(), count);
    ASSERT_EQ(receive(), SocketState::kDone);
    EXPECT_TRUE(passed.valid());
    EXPECT_EQ(open_descriptors(), before + 1) << count;
  }
  passed.reset();
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace tutti::test
