// The memory alone: every rank computes an output from inputs of its own, at the same time as the others.
#include <algorithm>

#include "player.h"

namespace tutti::peers {
namespace {

class FloorPlayer final : public Player {
 public:
  explicit FloorPlayer(const Seat& seat)
      : ranks_(static_cast<std::size_t>(seat.ranks())), other_(seat.stage().most_sent) {}

  std::string name() const override { return "the memory alone"; }
  bool run(const Operation& operation, std::string*) override {
    const bool is_split = race::is_split(operation.what);
    const std::size_t count = is_split ? operation.count * ranks_ : operation.count;
    const std::size_t times = !is_split && race::is_joined(operation.what) ? ranks_ : 1;
    race::run_floor(operation.what, {operation.in, other_.data(), operation.out}, count, times);
    return true;
  }

 private:
  std::size_t ranks_;
  std::vector<float> other_;
};

}  // namespace

std::unique_ptr<Player> make_player(const Seat& seat, std::string*) { return std::make_unique<FloorPlayer>(seat); }

bool is_bound() { return true; }
int launched_rank() { return -1; }

}  // namespace tutti::peers
