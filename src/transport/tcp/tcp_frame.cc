#include "transport/tcp/tcp_frame.h"

#include <bit>
#include <cstring>

#include "core/crc32c.h"

namespace tutti {
namespace {

static_assert(std::endian::native == std::endian::little, "frames travel as they stand in memory");

std::uint16_t check_of(TcpFrame frame, std::uint32_t mark) {
  frame.check = 0;
  return static_cast<std::uint16_t>(crc32c(mark, std::as_bytes(std::span(&frame, 1))));
}

}  // namespace

void encode(const TcpFrame& frame, FrameBytes out, std::uint32_t mark) {
  TcpFrame sent = frame;
  if ((sent.flags & kChecksummed) != 0) sent.check = check_of(sent, mark);
  std::memcpy(out.data(), &sent, sizeof sent);
}

bool decode(FrameView in, Bytes max_message, FrameCheck check, TcpFrame* frame) {
  std::memcpy(frame, in.data(), sizeof *frame);
  if (frame->kind > FrameKind::kResume || (frame->flags & ~(kLent | kChecksummed)) != 0) return false;
  const bool checked = (frame->flags & kChecksummed) != 0;
  if (checked != check.on || (checked && frame->check != check_of(*frame, check.mark))) return false;
  const std::size_t most = frame->kind == FrameKind::kResume    ? max_message.value + TcpFrame::kBytes
                           : frame->kind == FrameKind::kRelease ? 0
                                                                : max_message.value;
  return frame->payload <= most;
}

}  // namespace tutti
