// Plain sockets: every rank sends the next one as many bytes as an all_reduce makes it send, and receives as many from
// the one before, over loopback TCP. It is a yardstick for collectives over TCP: the kernel copies these bytes in and
// out, whoever calls it. Nothing is added up.
#include "player.h"
#include "socket_ring.h"

namespace tutti::peers {
namespace {

class SocketsPlayer final : public Player {
 public:
  SocketsPlayer(int ranks, std::unique_ptr<SocketRing> ring)
      : ranks_(static_cast<std::size_t>(ranks)), ring_(std::move(ring)) {}

  std::string name() const override { return "as many bytes by plain sockets"; }
  std::uint32_t offers() const override { return offer_of(race::Contested::kAllReduce); }

  bool run(const Operation& operation, std::string* text) override {
    const std::size_t bytes = operation.count * sizeof(float);
    const std::size_t moved = 2 * bytes * (ranks_ - 1) / ranks_;
    Flow sent{reinterpret_cast<char*>(const_cast<float*>(operation.in)), bytes, moved};
    Flow received{reinterpret_cast<char*>(operation.out), bytes, moved};
    while (sent.left != 0 || received.left != 0)
      if (!ring_->move(&sent, &received, text)) return false;
    return true;
  }

 private:
  const std::size_t ranks_;
  const std::unique_ptr<SocketRing> ring_;
};

}  // namespace

std::unique_ptr<Player> make_player(const Seat& seat, std::string* text) {
  std::unique_ptr<SocketRing> ring = SocketRing::connect(seat, text);
  return ring == nullptr ? nullptr : std::make_unique<SocketsPlayer>(seat.ranks(), std::move(ring));
}

bool is_bound() { return true; }
int launched_rank() { return -1; }

}  // namespace tutti::peers
