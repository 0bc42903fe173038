// A connection is fed by a peer that is a stranger, or that has the secret and has gone wrong. The first byte chooses.
#include "net/connection.h"

#include "bytes.h"
#include "speaker.h"

namespace {

using namespace tutti;

constexpr KeyId kId{std::byte{1}};
const Key kSecret{std::byte{7}};

KeyLookup lookup() {
  return [](Role, const KeyId& id, Key* secret) { return *secret = kSecret, id == kId; };
}

/// The connection under test and the bare other end of its socket.
struct Stage {
  EventLoop loop;
  bool opened = false;
  bool closed = false;
  int messages = 0;
  std::unique_ptr<fuzz::Speaker> other;

  explicit Stage(Handshake handshake) {
    fuzz::demand(loop.open().ok(), "a loop opens");
    ConnectionEvents events;
    events.on_open = [this](const auto&) { opened = true; };
    events.on_message = [this](MessageType, ByteView) { return ++messages, Status(); };
    events.on_close = [this](const Status&) { closed = true; };
    other = std::make_unique<fuzz::Speaker>(loop, fuzz::stream_pair(), std::move(handshake), events);
  }
};

void feed_stranger(Stage& stage, fuzz::Bytes& input) {
  while (!input.empty() && !stage.closed) stage.other->feed(input.take(1 + input.u16()));
  fuzz::demand(!stage.opened && stage.messages == 0, "a stranger gets nothing");
}

/// Frames with a good code, whatever they say.
void feed_signed(Stage& stage, fuzz::Bytes& input) {
  while (!input.empty() && !stage.closed) {
    const bool honest = input.u8() % 4 != 0;
    MessageWriter frame;
    const std::size_t size = input.u16() % 1024;
    frame.u32(static_cast<std::uint32_t>(honest ? size : input.u16() << input.u8() % 17));
    frame.u16(input.u8());
    frame.u16(honest ? 0 : input.u8());
    frame.bytes(input.take(size));
    stage.other->say(frame.data(), input.u8());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Bytes input(data, size);
  const unsigned mode = input.u8() % 4;
  if (mode == 0) {
    Stage stage(Handshake::client(Role::kControl, kId, kSecret));
    feed_stranger(stage, input);
    return 0;
  }
  Stage stage(Handshake::server(lookup()));
  if (mode == 1) {
    feed_stranger(stage, input);
    return 0;
  }
  stage.other->pass(Role::kControl, kId, kSecret);
  if (mode == 2) {
    while (!input.empty() && !stage.closed) stage.other->feed(input.take(1 + input.u16()));
    fuzz::demand(stage.messages == 0, "a frame without a good code is no message");
    return 0;
  }
  feed_signed(stage, input);
  return 0;
}
