// An executor for device buffers. The rank has another one for host buffers, which has the links and the board.
#pragma once

#include <span>

#include "executor/executor.h"

namespace tutti {

/// Passes on to the host's executor what that one does, whichever of the two runs a call.
class HostedExecutor : public Executor {
 public:
  void start(std::span<Transfer> transfers) override { host_.start(transfers); }
  Status run(std::span<Transfer> transfers, WaitMonitor& monitor) override { return host_.run(transfers, monitor); }
  RankLinks& links() override { return host_.links(); }
  const OpenTransfers& transfers() const override { return host_.transfers(); }

 protected:
  /// `host` must outlive this executor.
  explicit HostedExecutor(Executor& host) : host_(host) {}
  Executor& host() { return host_; }
  const Executor& host() const { return host_; }

 private:
  Executor& host_;
};

}  // namespace tutti
