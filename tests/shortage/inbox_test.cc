// A connection for whose buffer there is no memory leaves the inbox as it was, so that it may be looked at again.
// Covers transport/tcp/tcp_inbox.cc.
#include "transport/tcp/tcp_inbox.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstddef>
#include <new>
#include <optional>
#include <vector>

#include "shortage/shortage.h"

namespace tutti::test {
namespace {

class Silent final : public TcpInbox::Listener {
 public:
  bool on_counts(const ReleaseCounts&) override { return true; }
  bool on_resume(std::uint32_t, std::uint32_t) override { return true; }
};

TEST(ShortageOfAnInbox, LeavesItAsItWas) {
  int ends[2] = {};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  const Descriptor other(ends[1]);
  TcpStream stream;
  stream.socket = Descriptor(ends[0]);
  TcpInbox inbox(Bytes{std::size_t{256} * 1024}, 8, FrameCheck{});
  std::vector<std::byte> greeting(TcpFrame::kBytes);
  TcpFrame frame;
  frame.kind = FrameKind::kResume;
  encode(frame, FrameBytes(greeting.data(), TcpFrame::kBytes));
  make_scarce(Scarce::kMemory, 1, true);
  EXPECT_THROW(inbox.restart(std::move(greeting)), std::bad_alloc);
  (void)end_scarcity(Scarce::kMemory);
  Silent listener;
  EXPECT_EQ(inbox.read(stream, std::nullopt, listener), SocketState::kAgain) << inbox.fault();
}

}  // namespace
}  // namespace tutti::test
