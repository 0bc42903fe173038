// The frame of a tcp link: what stands in front of every message on the wire. docs/design/tcp.md has the protocol.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/fingerprint.h"
#include "core/units.h"

namespace tutti {

/// The first two are messages of the unicast and of the multicast link and number the arrays by link below.
enum class FrameKind : std::uint8_t { kUnicast = 0, kMulticast = 1, kRelease = 2, kResume = 3 };
inline constexpr std::size_t kLinkKinds = 2;

enum TcpFrameFlag : std::uint8_t {
  kReleaseAtOnce = 1,  ///< the sender waits for the release: it lends its caller's memory
  kChecksummed = 2,    ///< `check` and `crc` are set
};

/// Messages that a rank has released so far, by link kind; they wrap.
using ReleaseCounts = std::array<std::uint32_t, kLinkKinds>;

/// 32 bytes, little-endian. A message: `payload` bytes follow. kRelease: only the counts matter. kResume, first on
/// every connection in both directions: `sequence` is the next message that the sender expects, `payload` how many
/// bytes of it (frame included) it has already; none follow.
struct TcpFrame {
  static constexpr std::size_t kBytes = 32;
  std::uint32_t payload = 0;
  FrameKind kind = FrameKind::kUnicast;
  std::uint8_t flags = 0;
  std::uint16_t check = 0;     ///< low half of the CRC32C of this frame with `check` 0
  std::uint32_t sequence = 0;  ///< messages of one direction, over both links; wraps
  ReleaseCounts released{};    ///< of the other direction's messages
  std::uint32_t crc = 0;       ///< CRC32C of the payload
  Fingerprint fingerprint = 0;
};
static_assert(sizeof(TcpFrame) == TcpFrame::kBytes);

using FrameBytes = std::span<std::byte, TcpFrame::kBytes>;
using FrameView = std::span<const std::byte, TcpFrame::kBytes>;

/// Writes it, with its check where it is checksummed.
void encode(const TcpFrame& frame, FrameBytes out);

/// False: no frame of this protocol, larger than `max_message`, or, where `checksum` demands checks, without a right
/// one.
bool decode(FrameView in, Bytes max_message, bool checksum, TcpFrame* frame);

}  // namespace tutti
