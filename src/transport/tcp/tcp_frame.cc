#include "transport/tcp/tcp_frame.h"

#include <bit>
#include <cstring>

#include "core/crc32c.h"

namespace tutti {
namespace {

static_assert(std::endian::native == std::endian::little, "frames travel as they stand in memory");

std::uint16_t check_of(TcpFrame frame) {
  frame.check = 0;
  return static_cast<std::uint16_t>(crc32c(0, std::as_bytes(std::span(&frame, 1))));
}

}  // namespace

void encode(const TcpFrame& frame, FrameBytes out) {
  TcpFrame sent = frame;
  if ((sent.flags & kChecksummed) != 0) sent.check = check_of(sent);
  std::memcpy(out.data(), &sent, sizeof sent);
}

bool decode(FrameView in, Bytes max_message, bool checksum, TcpFrame* frame) {
  std::memcpy(frame, in.data(), sizeof *frame);
  if (frame->kind > FrameKind::kResume || (frame->flags & ~(kReleaseAtOnce | kChecksummed)) != 0) return false;
  const bool checked = (frame->flags & kChecksummed) != 0;
  if (checked != checksum || (checked && frame->check != check_of(*frame))) return false;
  const std::size_t most = frame->kind == FrameKind::kResume    ? max_message.value + TcpFrame::kBytes
                           : frame->kind == FrameKind::kRelease ? 0
                                                                : max_message.value;
  return frame->payload <= most;
}

}  // namespace tutti
