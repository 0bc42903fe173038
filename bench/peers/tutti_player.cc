// Tutti as it ships.
#include "player.h"
#include "race/tutti_call.h"

namespace tutti::peers {
namespace {

class TuttiPlayer final : public Player {
 public:
  explicit TuttiPlayer(tuttiComm_t comm) : comm_(comm) {}

  std::string name() const override {
    int version = 0;
    tuttiGetVersion(&version);
    return "Tutti " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
           std::to_string(version % 100);
  }
  bool run(const Operation& operation, std::string* text) override {
    const tuttiResult_t code =
        race::call_tutti(operation.what, operation.in, operation.out, operation.count, operation.root, comm_);
    if (code != tuttiSuccess) *text = tuttiGetLastError(comm_);
    return code == tuttiSuccess;
  }
  void leave() override { tuttiCommDestroy(comm_); }

 private:
  tuttiComm_t comm_;
};

}  // namespace

std::unique_ptr<Player> make_player(const Seat& seat, std::string* text) {
  tuttiUniqueId id{};
  tuttiResult_t code = seat.rank() == 0 ? tuttiGetUniqueId(&id) : tuttiSuccess;
  std::vector<std::string> all;
  seat.gather(std::string(id.internal, sizeof id.internal), &all);
  all[0].copy(id.internal, sizeof id.internal);
  tuttiComm_t comm = nullptr;
  if (code == tuttiSuccess) code = tuttiCommInitRank(&comm, seat.ranks(), id, seat.rank());
  if (code == tuttiSuccess) return std::make_unique<TuttiPlayer>(comm);
  *text = tuttiGetLastError(nullptr);
  return nullptr;
}

bool is_bound() { return true; }
int launched_rank() { return -1; }

}  // namespace tutti::peers
