// The wiring of one rank: its face of the group's stream desk, as the tcp endpoint sees it.
#pragma once

#include <functional>
#include <memory>

#include "comm/membership/group.h"
#include "comm/membership/hub.h"
#include "comm/membership/stream_shelf.h"
#include "transport/tcp/tcp_wiring.h"

namespace tutti {

class GroupWiring final : public TcpWiring {
 public:
  /// In the loop's thread.
  GroupWiring(std::shared_ptr<Hub> hub, std::shared_ptr<Group> group, Rank rank);
  ~GroupWiring() override;

  void want(Rank peer, Lane lane) override;
  bool take(Rank peer, Lane lane, TcpStream* stream) override { return shelf_->take(peer, lane, stream); }
  bool gone(Rank peer) const override { return group_->member_table()->liveness(peer) != Liveness::kAlive; }
  void set_listener(std::function<void()> listener) override { listener_.set(std::move(listener)); }

 private:
  void arrived();
  std::shared_ptr<Hub> hub_;
  std::shared_ptr<Group> group_;
  std::shared_ptr<StreamShelf> shelf_;
  const Rank rank_;
  ListenerSlot listener_;
};

}  // namespace tutti
