// A connection is fed by a peer that is a stranger, or that has the secret and has gone wrong. The first byte chooses.
#include "comm/connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bytes.h"

namespace {

using namespace tutti;

constexpr KeyId kId{std::byte{1}};
constexpr Key kSecret{std::byte{7}};

KeyLookup lookup() {
  return [](Role, const KeyId& id, Key* secret) { return *secret = kSecret, id == kId; };
}

/// The connection under test and the bare other end of its socket.
struct Stage {
  EventLoop loop;
  Descriptor other;
  std::shared_ptr<Connection> connection;
  bool opened = false;
  bool closed = false;
  int messages = 0;

  explicit Stage(Handshake handshake) {
    fuzz::demand(loop.open().ok(), "a loop opens");
    int ends[2] = {-1, -1};
    fuzz::demand(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0, "a pair of sockets");
    other.reset(ends[0]);
    ConnectionEvents events;
    events.on_open = [this](const auto&) { opened = true; };
    events.on_message = [this](MessageType, ByteView) { return ++messages, Status(); };
    events.on_close = [this](const Status&) { closed = true; };
    const Status started =
        Connection::start(loop, Socket(Descriptor(ends[1])), std::move(handshake), events, &connection);
    fuzz::demand(started.ok(), "a connection starts");
  }
  ~Stage() { connection->close(); }

  void feed(ByteView data) {
    if (!data.empty()) (void)::send(other.get(), data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (!closed) connection->on_events(EPOLLIN);
  }
  std::vector<std::byte> answer() {
    std::vector<std::byte> data(4096);
    const ssize_t got = ::recv(other.get(), data.data(), data.size(), MSG_DONTWAIT);
    data.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return data;
  }
};

void feed_stranger(Stage& stage, fuzz::Bytes& input) {
  while (!input.empty() && !stage.closed) stage.feed(input.take(1 + input.u16()));
  fuzz::demand(!stage.opened && stage.messages == 0, "a stranger gets nothing");
}

/// With proofs that are right, and so with the keys of the connection.
Key let_in(Stage& stage) {
  Handshake client = Handshake::client(Role::kControl, kId, kSecret);
  std::vector<std::byte> hello;
  std::vector<std::byte> proof;
  fuzz::demand(client.start(&hello).ok(), "a handshake can start");
  stage.feed(hello);
  fuzz::demand(client.consume(stage.answer(), &proof).ok(), "the challenge is good");
  stage.feed(proof);
  fuzz::demand(stage.opened, "who has the secret is let in");
  return client.send_key();
}

/// Frames with a good code, whatever they say, sometimes cut short.
void feed_signed(Stage& stage, const Key& key, fuzz::Bytes& input) {
  for (std::uint64_t counter = 0; !input.empty() && !stage.closed; ++counter) {
    const bool honest = input.u8() % 4 != 0;
    WireWriter frame;
    const std::size_t size = input.u16() % 1024;
    frame.u32(static_cast<std::uint32_t>(honest ? size : input.u16() << input.u8() % 17));
    frame.u16(input.u8());
    frame.u16(honest ? 0 : input.u8());
    frame.bytes(input.take(size));
    WireWriter prefix;
    prefix.u64(counter);
    Key mac;
    fuzz::demand(hmac_sha256(key, {prefix.data(), frame.data()}, &mac).ok(), "a code is made");
    frame.bytes(ByteView(mac).first(16));
    const ByteView whole = frame.data();
    const std::size_t split = std::min<std::size_t>(input.u8(), whole.size());
    stage.feed(whole.first(split));
    stage.feed(whole.subspan(split));
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
  const Key key = let_in(stage);
  if (mode == 2) {
    while (!input.empty() && !stage.closed) stage.feed(input.take(1 + input.u16()));
    fuzz::demand(stage.messages == 0, "a frame without a good code is no message");
    return 0;
  }
  feed_signed(stage, key, input);
  return 0;
}
