// Covers transport/tcp/tcp_frame.cc.
// A link accepts only its own frames: checks refuse damaged ones, and those of another link.
#include "transport/tcp/tcp_frame.h"

#include <gtest/gtest.h>

#include <array>

namespace tutti {
namespace {

constexpr Bytes kMost{4096};
constexpr FrameCheck kCheck{true, 0x1234567};

std::array<std::byte, TcpFrame::kBytes> frame_of(std::uint32_t payload, std::uint8_t flags, std::uint32_t mark) {
  TcpFrame frame;
  frame.payload = payload;
  frame.flags = flags;
  frame.sequence = 5;
  frame.crc = 77;
  std::array<std::byte, TcpFrame::kBytes> bytes{};
  encode(frame, bytes, mark);
  return bytes;
}
bool is_taken(std::span<const std::byte, TcpFrame::kBytes> bytes, FrameCheck check) {
  TcpFrame frame;
  return decode(bytes, kMost, check, &frame);
}

TEST(TcpFrame, IsTakenWithItsLinksChecks) {
  EXPECT_TRUE(is_taken(frame_of(8, kChecksummed, kCheck.mark), kCheck));
  EXPECT_TRUE(is_taken(frame_of(8, 0, 0), FrameCheck{}));
  EXPECT_FALSE(is_taken(frame_of(8, 0, 0), kCheck)) << "it has none";
  EXPECT_FALSE(is_taken(frame_of(8, kChecksummed, kCheck.mark), FrameCheck{})) << "none are wanted";
  EXPECT_FALSE(is_taken(frame_of(kMost.value + 1, kChecksummed, kCheck.mark), kCheck));
}

TEST(TcpFrame, OfAnotherLinkIsDamaged) {
  for (const std::uint32_t mark : {0u, 1u, kCheck.mark + 1, ~kCheck.mark}) {
    EXPECT_FALSE(is_taken(frame_of(8, kChecksummed, mark), kCheck)) << mark;
  }
}

TEST(TcpFrame, WithABitChangedIsDamaged) {
  const auto whole = frame_of(8, kChecksummed, kCheck.mark);
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    auto bytes = whole;
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    EXPECT_FALSE(is_taken(bytes, kCheck)) << bit;
  }
}

}  // namespace
}  // namespace tutti
