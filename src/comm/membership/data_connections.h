// The data connections of one rank: the TcpStreamSource of its tcp endpoint, served by the process's DataConnector.
#pragma once

#include <functional>
#include <memory>

#include "comm/membership/accepted_streams.h"
#include "comm/membership/hub.h"
#include "comm/membership/process_membership.h"
#include "transport/tcp/tcp_stream_source.h"

namespace tutti {

class DataConnections final : public TcpStreamSource {
 public:
  /// Called in the loop's thread.
  DataConnections(std::shared_ptr<Hub> hub, std::shared_ptr<ProcessMembership> membership, Rank rank);
  ~DataConnections() override;

  void want(Rank peer, Lane lane) override;
  bool take(Rank peer, Lane lane, TcpStream* stream) override { return accepted_->take(peer, lane, stream); }
  bool gone(Rank peer) const override {
    return process_membership_->member_table()->liveness(peer) != Liveness::kAlive;
  }
  void set_listener(std::function<void()> listener) override { listener_.set(std::move(listener)); }

 private:
  void arrived();
  std::shared_ptr<Hub> hub_;
  std::shared_ptr<ProcessMembership> process_membership_;
  std::shared_ptr<AcceptedStreams> accepted_;
  const Rank rank_;
  ListenerSlot listener_;
};

}  // namespace tutti
