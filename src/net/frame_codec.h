// The frames of a connection: how a message looks on its way, and how its receiver knows that it is the next one.
//
// A frame is: size of the payload (4), type (2), zero (2), payload, and the first 16 bytes of an HMAC over a counter,
// the header and the payload under a key of this connection and direction. What was not sent by the other end, or was
// changed, repeated, left out or reordered on the way, is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/status.h"
#include "net/codec.h"
#include "net/crypto.h"

namespace tutti {

/// A message as it was received.
struct Frame {
  MessageType type{};
  ByteView payload;      ///< a part of the input
  std::size_t size = 0;  ///< of all of the frame; 0: it is not there as a whole yet
};

/// One direction of a connection at one of its ends: it encodes frames there, or decodes them. No input or output of
/// its own.
class FrameCodec {
 public:
  static constexpr std::size_t kHeaderSize = 8;
  static constexpr std::size_t kMacSize = 16;

  FrameCodec() = default;
  explicit FrameCodec(const Key& key) : key_(key) {}

  /// Makes the next frame. It counts once count_sent() is called, which is for frames that are sure to be sent: the
  /// receiver would miss any other.
  Status encode(MessageType type, ByteView payload, std::vector<std::byte>* frame) const;
  void count_sent() { ++counter_; }
  /// Reads the frame at the beginning of `input`. Fails if it has more than `limit` bytes of payload, or is not the
  /// next one as the other end made it: then the connection is of no more use.
  Status decode(ByteView input, std::size_t limit, Frame* frame);

 private:
  Status mac_of(ByteView header_and_payload, Key* mac) const;

  Key key_{};
  std::uint64_t counter_ = 0;
};

}  // namespace tutti
