#include "comm/join/oversubscription.h"

#include "comm/membership/hub.h"

namespace tutti {
namespace {

struct Mark {};
constexpr std::uint64_t kTheMark = 0;

}  // namespace

Oversubscription::Oversubscription(int ranks, int cores) {
  if (ranks > cores) {
    mark_ = Hub::shared<Mark>(kTheMark, [] { return std::make_shared<Mark>(); });
    oversubscribed_ = true;
  } else {
    oversubscribed_ = Hub::shared<Mark>(kTheMark, [] { return std::shared_ptr<Mark>(); }) != nullptr;
  }
}

}  // namespace tutti
