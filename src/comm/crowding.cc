#include "comm/crowding.h"

#include "comm/membership/hub.h"

namespace tutti {
namespace {

struct Mark {};
constexpr std::uint64_t kTheMark = 0;

}  // namespace

Crowding::Crowding(int ranks, int cores) {
  if (ranks > cores) {
    mark_ = Hub::shared<Mark>(kTheMark, [] { return std::make_shared<Mark>(); });
    crowded_ = true;
  } else {
    crowded_ = Hub::shared<Mark>(kTheMark, [] { return std::shared_ptr<Mark>(); }) != nullptr;
  }
}

}  // namespace tutti
