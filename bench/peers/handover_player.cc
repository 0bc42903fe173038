// The hand-over of cores: every rank gives its core up twice, to whichever rank waits for one. It is a yardstick for
// ranks that share cores: nearly all have to run once before they know what the others have, and once after.
#include <sched.h>

#include "player.h"

namespace tutti::peers {
namespace {

class HandoverPlayer final : public Player {
 public:
  std::string name() const override { return "two hand-overs of every rank's core"; }
  bool run(const Operation&, std::string*) override {
    sched_yield();
    sched_yield();
    return true;
  }
};

}  // namespace

std::unique_ptr<Player> make_player(const Seat&, std::string*) { return std::make_unique<HandoverPlayer>(); }

bool is_bound() { return true; }
int launched_rank() { return -1; }

}  // namespace tutti::peers
