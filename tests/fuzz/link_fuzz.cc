// A tcp link whose peer has gone wrong: frames that make no sense, at any time, over any number of connections. What
// the link hands out is read to its last byte.
#include "transport/tcp/tcp_link.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include "bytes.h"
#include "core/crc32c.h"

namespace {

using namespace tutti;

constexpr TcpGeometry kGeometry{Bytes{8192}, 4, false};

/// Gives the link the connections that the input makes.
class Wiring final : public TcpStreamSource {
 public:
  void want(Rank, Lane) override { ++wishes_; }
  bool take(Rank, Lane, TcpStream* stream) override {
    if (!next_.socket.valid()) return false;
    *stream = std::move(next_);
    next_ = TcpStream{};
    return true;
  }
  bool gone(Rank) const override { return is_gone_; }
  void set_listener(std::function<void()>) override {}

  void offer(TcpStream stream) { next_ = std::move(stream); }
  void end() { is_gone_ = true; }

 private:
  TcpStream next_;
  int wishes_ = 0;
  bool is_gone_ = false;
};

/// A message that is asked for, and memory of just its size: what lies after it is not the link's.
struct Wanted {
  Fingerprint fingerprint = 0;
  std::vector<std::byte> memory;
  bool lands = false;
};

class Scene {
 public:
  explicit Scene(bool checksum) : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    TcpGeometry geometry = kGeometry;
    geometry.checksum = checksum;
    check_ = check_of(geometry, Rank{1}, Rank{0}, Lane{0});
    link_ =
        std::make_unique<TcpLink>(streams_, geometry, Rank{0}, Rank{1}, Lane{0}, epoll_.get(), unsent_, LogSource{});
  }

  void step(fuzz::Bytes& input) {
    const unsigned what = input.u8();
    const FrameKind kind = (what & 0x10) != 0 ? FrameKind::kMulticast : FrameKind::kUnicast;
    switch (what % 12) {
      case 0:
        return connect(input);
      case 1:
      case 2:
        return send(kind, what);
      case 3:
        return say_bytes(input.take(input.u8()));
      case 4:
        link_->flush();
        return;
      case 5:
        link_->delivered();
        return;
      case 6:
        if (what >= 0xf0) streams_.end();
        link_->read_all();
        return;
      case 7:
      case 8:
        return receive(kind, (what & 0x20) != 0, input);
      default:
        return say_frame(input);
    }
  }

 private:
  void connect(fuzz::Bytes& input) {
    int ends[2] = {-1, -1};
    fuzz::demand(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0, "a pair of sockets");
    other_.reset(ends[0]);
    TcpStream stream;
    stream.socket.reset(ends[1]);
    const auto leftover = input.take(input.u8() % 64);
    stream.leftover.assign(leftover.begin(), leftover.end());
    streams_.offer(std::move(stream));
    link_->look_for_stream();
    say_frame(input);
  }

  void send(FrameKind kind, unsigned what) {
    TcpOutbox& outbox = link_->outbox();
    if (!outbox.has_credit(kind)) return;
    const Bytes bytes{what >= 0x80 ? kGeometry.max_message.value : what % 64};
    if (kind == FrameKind::kUnicast && (what & 0x20) != 0) {
      std::memset(outbox.claim(bytes), 1, bytes.value);
      outbox.commit(bytes, what, link_->releases());
    } else {
      static const std::array<std::byte, 8192> lent{};
      outbox.lend(kind, nullptr, lent.data(), bytes, what, link_->releases(), (what & 0x40) != 0);
      link_->lent(kind);
    }
    fuzz::demand(link_->owes(), "what was sent is not released");
  }

  /// Asks for one message until it is there, as an executor does.
  void receive(FrameKind kind, bool lands, fuzz::Bytes& input) {
    std::unique_ptr<Wanted>& wanted = wanted_[static_cast<std::size_t>(kind)];
    if (!wanted) {
      wanted = std::make_unique<Wanted>();
      wanted->fingerprint = input.u8();
      wanted->memory.resize(input.u16() % (kGeometry.max_message.value + 1));
      wanted->lands = lands;
    }
    const Bytes bytes{wanted->memory.size()};
    const Peek peek = link_->peek(kind, bytes, wanted->fingerprint, wanted->lands ? wanted->memory.data() : nullptr);
    if (peek.state == PeekState::kAgain) return;
    if (peek.state == PeekState::kReady) {
      unsigned sum = 0;
      for (std::size_t i = 0; i < bytes.value; ++i) sum += std::to_integer<unsigned>(peek.data[i]);
      fuzz::demand(sum <= bytes.value * 255, "the message can be read");
      link_->release(kind);
    }
    given_up_.push_back(std::move(wanted));
  }

  void say_bytes(std::span<const std::byte> data) {
    if (other_.valid() && !data.empty())
      (void)::send(other_.get(), data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    std::array<std::byte, 4096> heard{};
    while (other_.valid() && ::recv(other_.get(), heard.data(), heard.size(), MSG_DONTWAIT) > 0) continue;
  }

  /// A frame that is one of the protocol's, with any numbers, and its payload.
  void say_frame(fuzz::Bytes& input) {
    TcpFrame frame;
    const unsigned how = input.u8();
    frame.kind = static_cast<FrameKind>(how % 4);
    frame.flags = static_cast<std::uint8_t>((how & 4) != 0 ? kLent : 0);
    frame.payload = static_cast<std::uint32_t>(input.u16());
    frame.sequence = static_cast<std::uint32_t>((how & 8) != 0 ? input.u16() << 16 : said_);
    frame.released = {static_cast<std::uint32_t>(input.u8()), static_cast<std::uint32_t>(input.u8())};
    frame.fingerprint = input.u8();
    std::vector<std::byte> whole(TcpFrame::kBytes);
    if (frame.kind == FrameKind::kUnicast || frame.kind == FrameKind::kMulticast) {
      whole.resize(TcpFrame::kBytes + std::min<std::size_t>(frame.payload, 16384), std::byte{5});
      if ((how & 16) == 0) ++said_;
    }
    if (check_.on) {
      frame.flags |= kChecksummed;
      frame.crc = crc32c(check_.mark, std::span(whole).subspan(TcpFrame::kBytes));
    }
    encode(frame, std::span(whole).first<TcpFrame::kBytes>(), check_.mark);
    if ((how & 32) != 0) whole.resize(input.u16() % (whole.size() + 1));
    say_bytes(whole);
  }

  FrameCheck check_;
  Wiring streams_;
  const Descriptor epoll_;
  std::vector<TcpLink*> unsent_;
  Descriptor other_;
  std::uint32_t said_ = 0;
  std::array<std::unique_ptr<Wanted>, kLinkKinds> wanted_;
  std::vector<std::unique_ptr<Wanted>> given_up_;  // the memory stays until the link is gone
  std::unique_ptr<TcpLink> link_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Bytes input(data, size);
  Scene scene(input.u8() % 2 == 1);
  while (!input.empty()) scene.step(input);
  return 0;
}
