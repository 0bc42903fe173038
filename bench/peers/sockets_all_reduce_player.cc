// An all_reduce by plain sockets: a ring, which sends no more bytes than an all_reduce must, with nothing around it but
// send, recv and the sums. Beside sockets_player.cc, which only moves the bytes, it tells what the sums cost. No header
// says what a message is, and nothing is kept for a connection that might be lost.
#include <algorithm>

#include "player.h"
#include "socket_ring.h"

namespace tutti::peers {
namespace {

/// Up to here two ranks send each other all they have: one exchange takes less than two that wait for each other.
constexpr std::size_t kExchangedBytes = 256 << 10;
/// So many bytes are received before they are added, because they are still in the cache then.
constexpr std::size_t kPieceBytes = 256 << 10;

char* bytes_of(const float* data) { return reinterpret_cast<char*>(const_cast<float*>(data)); }

class SocketsAllReducePlayer final : public Player {
 public:
  SocketsAllReducePlayer(const Seat& seat, std::unique_ptr<SocketRing> ring)
      : rank_(static_cast<std::size_t>(seat.rank())),
        ranks_(static_cast<std::size_t>(seat.ranks())),
        ring_(std::move(ring)),
        piece_(kPieceBytes / sizeof(float)) {}

  std::string name() const override { return "an all_reduce by plain sockets"; }
  std::uint32_t offers() const override { return offer_of(race::Contested::kAllReduce); }

  bool run(const Operation& operation, std::string* text) override {
    if (ranks_ == 2 && operation.count * sizeof(float) <= kExchangedBytes)
      return add_next({operation.in, operation.count}, operation.in, {operation.out, operation.count}, text);
    for (std::size_t round = 0; round + 1 < ranks_; ++round) {
      const Block sent = block(operation, rank_ + ranks_ - round), to = block(operation, rank_ + ranks_ - round - 1);
      const float* const own = operation.in + (to.data - operation.out);
      const float* const data = round == 0 ? operation.in + (sent.data - operation.out) : sent.data;
      if (!add_next({data, sent.count}, own, to, text)) return false;
    }
    for (std::size_t round = 0; round + 1 < ranks_; ++round) {
      const Block sent = block(operation, rank_ + ranks_ + 1 - round), to = block(operation, rank_ + ranks_ - round);
      Flow out = flow(sent), in = flow(to);
      while (out.left != 0 || in.left != 0)
        if (!ring_->move(&out, &in, text)) return false;
    }
    return true;
  }

 private:
  struct Block {
    const float* data;
    std::size_t count;
  };

  static Flow flow(Block block) {
    const std::size_t bytes = block.count * sizeof(float);
    return {bytes_of(block.data), bytes, bytes};
  }

  Block block(const Operation& operation, std::size_t number) const {
    const std::size_t begin = operation.count * (number % ranks_) / ranks_;
    return {operation.out + begin, operation.count * (number % ranks_ + 1) / ranks_ - begin};
  }

  /// Sends a block, and receives another piece by piece: `own` and what comes are added into `to`.
  bool add_next(Block sent, const float* own, Block to, std::string* text) {
    Flow out = flow(sent), none{};
    for (std::size_t done = 0; done < to.count;) {
      const std::size_t count = std::min(to.count - done, piece_.size());
      Flow in = flow({piece_.data(), count});
      while (in.left != 0)
        if (!ring_->move(&out, &in, text)) return false;
      race::run_floor(race::Contested::kAllReduce, {own + done, piece_.data(), const_cast<float*>(to.data) + done},
                      count, 1);
      done += count;
    }
    while (out.left != 0)
      if (!ring_->move(&out, &none, text)) return false;
    return true;
  }

  const std::size_t rank_, ranks_;
  const std::unique_ptr<SocketRing> ring_;
  std::vector<float> piece_;
};

}  // namespace

std::unique_ptr<Player> make_player(const Seat& seat, std::string* text) {
  std::unique_ptr<SocketRing> ring = SocketRing::connect(seat, text);
  return ring == nullptr ? nullptr : std::make_unique<SocketsAllReducePlayer>(seat, std::move(ring));
}

bool is_bound() { return true; }
int launched_rank() { return -1; }

}  // namespace tutti::peers
