#include "comm/membership/wiring.h"

#include <utility>

namespace tutti {

GroupWiring::GroupWiring(std::shared_ptr<Hub> hub, std::shared_ptr<Group> group, Rank rank)
    : hub_(std::move(hub)), group_(std::move(group)), shelf_(group_->desk().shelf(rank)), rank_(rank) {
  shelf_->set_listener([this] { arrived(); });
  arrivals_.store(shelf_->waiting(), std::memory_order_release);  // a fast peer's streams may be there already
}

GroupWiring::~GroupWiring() {
  if (hub_forked()) {  // the parent's: its locks may be held by threads that are not here
    Hub::keep_until_exit(new std::pair(std::move(hub_), std::move(group_)));
    Hub::keep_until_exit(new std::shared_ptr(std::move(shelf_)));
    return;
  }
  shelf_->set_listener({});
}

void GroupWiring::arrived() {
  arrivals_.fetch_add(1, std::memory_order_release);  // pairs with the acquire in arrivals()
  listener_.call();
}

void GroupWiring::want(Rank peer, Lane lane) {
  if (hub_forked()) return;
  const LineId line{rank_, peer, lane};
  hub_->loop().post([group = group_, line, taken = shelf_->taken(peer, lane)] { group->desk().want(line, taken); });
}

}  // namespace tutti
