#include "comm/join/oversubscription.h"

#include <algorithm>

#include "comm/membership/hub.h"

namespace tutti {
namespace {

struct Mark {
  int ranks_per_core;
};
constexpr std::uint64_t kTheMark = 0;

}  // namespace

Oversubscription::Oversubscription(int ranks, int cores) : ranks_per_core_((ranks + cores - 1) / cores) {
  const auto make = [this] {
    return ranks_per_core_ > 1 ? std::make_shared<Mark>(Mark{ranks_per_core_}) : std::shared_ptr<Mark>();
  };
  const std::shared_ptr<Mark> first = Hub::shared<Mark>(kTheMark, make);
  if (first == nullptr) return;
  if (ranks_per_core_ > 1) mark_ = first;
  ranks_per_core_ = std::max(ranks_per_core_, first->ranks_per_core);
}

}  // namespace tutti
