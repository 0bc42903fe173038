// An executor of device buffers beside the one of the rank's host buffers, which has the links and the board.
#pragma once

#include <span>
#include <string>

#include "executor/executor.h"

namespace tutti {

/// What is the host's executor's, whichever of the two runs a call.
class HostedExecutor : public Executor {
 public:
  void start(std::span<Transfer> transfers) override { host_.start(transfers); }
  Status run(std::span<Transfer> transfers, WaitMonitor& monitor) override { return host_.run(transfers, monitor); }
  const std::string& transfer_fault() const override { return host_.transfer_fault(); }
  const Transfer* open_transfer() const override { return host_.open_transfer(); }
  bool exchanges_with(Rank peer) const override { return host_.exchanges_with(peer); }
  void serve() override { host_.serve(); }
  bool delivered(Rank* late) override { return host_.delivered(late); }
  bool hears(Rank peer) override { return host_.hears(peer); }
  CallBoard& board() override { return host_.board(); }
  const CallBoard* board(Rank peer) const override { return static_cast<const Executor&>(host_).board(peer); }

 protected:
  /// `host` must outlive this one.
  explicit HostedExecutor(Executor& host) : host_(host) {}
  Executor& host() { return host_; }
  const Executor& host() const { return host_; }

 private:
  Executor& host_;
};

}  // namespace tutti
