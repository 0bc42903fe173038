#include "comm/membership/data_connections.h"

#include <utility>

namespace tutti {

DataConnections::DataConnections(std::shared_ptr<Hub> hub, std::shared_ptr<ProcessMembership> membership, Rank rank)
    : hub_(std::move(hub)),
      process_membership_(std::move(membership)),
      accepted_(process_membership_->connector().accepted(rank)),
      rank_(rank) {
  accepted_->set_listener([this] { arrived(); });
  arrivals_.store(accepted_->waiting(), std::memory_order_release);  // a fast peer's streams may be there already
}

DataConnections::~DataConnections() {
  if (hub_forked()) {  // these objects are the parent's; their locks may be held by threads that are not here
    Hub::keep_until_exit(new std::pair(std::move(hub_), std::move(process_membership_)));
    Hub::keep_until_exit(new std::shared_ptr(std::move(accepted_)));
    return;
  }
  accepted_->set_listener({});
}

void DataConnections::arrived() {
  arrivals_.fetch_add(1, std::memory_order_release);  // pairs with the acquire in arrivals()
  listener_.call();
}

void DataConnections::want(Rank peer, Lane lane) {
  if (hub_forked()) return;
  const DataConnectionId id{rank_, peer, lane};
  hub_->loop().post([membership = process_membership_, id, taken = accepted_->taken(peer, lane)] {
    membership->connector().want(id, taken);
  });
}

}  // namespace tutti
