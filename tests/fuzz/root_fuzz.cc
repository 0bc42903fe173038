// Ranks that have the secret and have gone wrong join by one id, four connections at most, message by message.
#include "comm/join/root.h"

#include <array>

#include "messages.h"
#include "speaker.h"

namespace {

using namespace tutti;

class Scene {
 public:
  Scene() {
    fuzz::demand(loop_.open().ok(), "a loop opens");
    id_.secret[0] = std::byte{7};
    id_.nonce[0] = std::byte{1};
    root_ = std::make_shared<RootSession>(loop_, id_, [this](const Status&) { ++ends_; });
  }
  ~Scene() {
    for (auto& rank : ranks_) rank.reset();
    root_->stop();
    fuzz::demand(ends_ <= 1, "an id ends once");
  }

  void step(fuzz::Bytes& input) {
    const unsigned who = input.u8();
    std::unique_ptr<fuzz::Speaker>& rank = ranks_[who % ranks_.size()];
    if (who >= 0xf0) return rank.reset();  // the process has ended
    if (!rank) rank = admitted();
    const auto type = static_cast<MessageType>(input.u8() % fuzz::kTypes);
    rank->say(type, fuzz::payload_of(type, static_cast<std::int32_t>(who % ranks_.size()), input));
    rank->listen();
  }

 private:
  std::unique_ptr<fuzz::Speaker> admitted() {
    const auto lookup = [this](Role, const KeyId&, Key* secret) { return *secret = id_.secret, true; };
    auto made =
        std::make_unique<fuzz::Speaker>(loop_, fuzz::stream_pair(), Handshake::server(lookup), ConnectionEvents{});
    made->pass(Role::kJoin, id_.nonce, id_.secret);
    root_->serve(made->connection());
    return made;
  }

  EventLoop loop_;
  UniqueId id_;
  int ends_ = 0;
  std::shared_ptr<RootSession> root_;
  std::array<std::unique_ptr<fuzz::Speaker>, 4> ranks_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Bytes input(data, size);
  Scene scene;
  while (!input.empty()) scene.step(input);
  return 0;
}
