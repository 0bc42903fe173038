// The 128 bytes of a unique id, and the file that carries them.
#include "bytes.h"
#include "comm/messages/unique_id.h"
#include "comm/rendezvous/file_rendezvous.h"

namespace {

using namespace tutti;

void feed_id(ByteView data) {
  IdBytes bytes{};
  std::copy(data.begin(), data.end(), bytes.begin());
  UniqueId id;
  if (!UniqueId::decode(bytes, &id).ok()) return;
  UniqueId again;
  fuzz::demand(UniqueId::decode(id.encode(), &again).ok(), "what was written can be read");
  fuzz::demand(again.encode() == id.encode(), "it is written the same way twice");
}

void feed_file(const std::string& text) {
  RendezvousFile content;
  if (!parse_rendezvous_file(text, &content)) return;
  fuzz::demand(text.size() >= 2 * content.id.size(), "an id has that many digits");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Bytes input(data, size);
  if (input.u8() % 2 == 0) {
    feed_id(input.take(std::tuple_size_v<IdBytes>));
  } else {
    feed_file(input.text());
  }
  return 0;
}
