// The frame of a tcp link, which stands in front of every message on the wire. docs/design/tcp.md has the protocol.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/fingerprint.h"
#include "core/units.h"

namespace tutti {

/// The first two are messages of the unicast and of the multicast link, and index the arrays that have an entry for
/// each of these links.
enum class FrameKind : std::uint8_t { kUnicast = 0, kMulticast = 1, kRelease = 2, kResume = 3 };
inline constexpr std::size_t kLinkKinds = 2;

enum TcpFrameFlag : std::uint8_t {
  kLent = 1,         ///< the sender's call waits for the release, because the message lies in its caller's memory
  kChecksummed = 2,  ///< `check` and `crc` are set
};

/// How many messages a rank has released so far, by link kind; the counts wrap.
using ReleaseCounts = std::array<std::uint32_t, kLinkKinds>;

/// 32 bytes, little-endian. After the frame of a message, `payload` bytes follow. Of a kRelease only the counts matter.
/// A kResume comes first on every connection, in both directions: `sequence` is the next message that its sender
/// expects, `payload` how many bytes of that message (frame included) it has already; none follow.
struct TcpFrame {
  static constexpr std::size_t kBytes = 32;
  std::uint32_t payload = 0;
  FrameKind kind = FrameKind::kUnicast;
  std::uint8_t flags = 0;
  std::uint16_t check = 0;     ///< low half of the CRC32C of this frame with `check` 0, after FrameCheck::mark
  std::uint32_t sequence = 0;  ///< the message's number in its direction, counted over both links; wraps
  ReleaseCounts released{};    ///< counts the messages of the other direction
  std::uint32_t crc = 0;       ///< CRC32C of the payload, after FrameCheck::mark
  Fingerprint fingerprint = 0;
};
static_assert(sizeof(TcpFrame) == TcpFrame::kBytes);

/// How the frames of one direction of a link are checked. The checks cover its mark as well, so a message of another
/// link or communicator, which is right in itself, is damaged here.
struct FrameCheck {
  bool on = false;
  std::uint32_t mark = 0;
};

using FrameBytes = std::span<std::byte, TcpFrame::kBytes>;
using FrameView = std::span<const std::byte, TcpFrame::kBytes>;

/// Writes the frame, with its check if it is checksummed.
void encode(const TcpFrame& frame, FrameBytes out, std::uint32_t mark = 0);

/// Returns false if this is no frame of this protocol, if its message is larger than `max_message`, if it has a check
/// and `check` is off or the other way round, or if its check is wrong.
bool decode(FrameView in, Bytes max_message, FrameCheck check, TcpFrame* frame);

}  // namespace tutti
