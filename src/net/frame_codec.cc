#include "net/frame_codec.h"

#include <array>

namespace tutti {
namespace {

void put_little_endian(std::uint64_t value, std::span<std::byte> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(value >> (8 * i) & 0xff);
}

std::uint64_t little_endian(ByteView bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return value;
}

}  // namespace

Status FrameCodec::mac_of(ByteView header_and_payload, Key* mac) const {
  std::array<std::byte, sizeof(counter_)> counter;
  put_little_endian(counter_, counter);
  return hmac_sha256(key_, {counter, header_and_payload}, mac);
}

Status FrameCodec::encode(MessageType type, ByteView payload, std::vector<std::byte>* frame) const {
  std::array<std::byte, kHeaderSize> header{};  // its last two bytes stay zero
  put_little_endian(payload.size(), std::span(header).first<4>());
  put_little_endian(static_cast<std::uint16_t>(type), std::span(header).subspan<4, 2>());
  frame->clear();
  frame->reserve(kHeaderSize + payload.size() + kMacSize);
  frame->insert(frame->end(), header.begin(), header.end());
  frame->insert(frame->end(), payload.begin(), payload.end());
  Key mac;
  TUTTI_TRY(mac_of(*frame, &mac));
  frame->insert(frame->end(), mac.begin(), mac.begin() + kMacSize);
  return {};
}

Status FrameCodec::decode(ByteView input, std::size_t limit, Frame* frame) {
  *frame = Frame{};
  if (input.size() < kHeaderSize) return {};
  const std::size_t size = little_endian(input.first(4));
  if (size > limit) return fail(Code::kRemoteError, "the other end sent a message of {} bytes", size);
  const std::size_t whole = kHeaderSize + size + kMacSize;
  if (input.size() < whole) return {};
  Key mac;
  TUTTI_TRY(mac_of(input.first(kHeaderSize + size), &mac));
  const bool is_next = equal_secret(ByteView(mac).first(kMacSize), input.subspan(kHeaderSize + size, kMacSize));
  if (!is_next || little_endian(input.subspan(6, 2)) != 0)
    return fail(Code::kRemoteError, "a message was changed on its way");
  ++counter_;
  *frame = Frame{static_cast<MessageType>(little_endian(input.subspan(4, 2))), input.subspan(kHeaderSize, size), whole};
  return {};
}

}  // namespace tutti
