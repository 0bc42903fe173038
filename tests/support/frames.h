// The frames of control connections, made by hand.
#pragma once

#include <vector>

#include "comm/messages/messages.h"
#include "net/crypto.h"

namespace tutti::test {

inline constexpr std::size_t kFrameHeader = 8;
inline constexpr std::size_t kFrameCode = 16;

/// Header and payload of a message.
inline std::vector<std::byte> frame_of(MessageType type, ByteView payload) {
  MessageWriter out;
  out.u32(static_cast<std::uint32_t>(payload.size()));
  out.u16(static_cast<std::uint16_t>(type));
  out.u16(0);
  out.bytes(payload);
  return out.data();
}

/// Appends the code of the `counter`-th frame in its direction.
inline Status sign(const Key& key, std::uint64_t counter, std::vector<std::byte>* frame) {
  MessageWriter prefix;
  prefix.u64(counter);
  Key mac;
  TUTTI_TRY(hmac_sha256(key, {prefix.data(), *frame}, &mac));
  frame->insert(frame->end(), mac.begin(), mac.begin() + kFrameCode);
  return {};
}

}  // namespace tutti::test
