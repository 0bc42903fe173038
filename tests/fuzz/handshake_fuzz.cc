// Both ends of the handshake are fed arbitrary messages: none of them may ever be done.
#include "net/handshake.h"

#include "bytes.h"

namespace {

using namespace tutti;

constexpr KeyId kId{std::byte{1}};
const Key kSecret{std::byte{7}};

void feed(Handshake& handshake, fuzz::Bytes& input) {
  std::vector<std::byte> out;
  fuzz::demand(handshake.start(&out).ok(), "a handshake can start");
  while (!input.empty()) {
    const std::size_t wanted = handshake.wants();
    // Mostly a message of the right size, else one of any.
    const std::size_t size = input.u8() == 0xff ? input.u8() : wanted;
    if (!handshake.consume(input.take(size), &out).ok()) return;
    fuzz::demand(!handshake.done(), "nobody guesses a proof");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Bytes input(data, size);
  if (input.u8() % 2 == 0) {
    Handshake client = Handshake::client(Role::kJoin, kId, kSecret);
    feed(client, input);
  } else {
    Handshake server =
        Handshake::server([](Role, const KeyId& id, Key* secret) { return *secret = kSecret, id == kId; });
    feed(server, input);
  }
  return 0;
}
