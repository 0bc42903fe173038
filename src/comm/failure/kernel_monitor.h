// Watches kernels on CUDA streams, which run without the thread that launched them: how they end, and whether they
// never will.
#pragma once

#include <cstdint>
#include <string>

#include "comm/failure/failure_handler.h"
#include "comm/failure/peers.h"
#include "comm/failure/wait_judge.h"
#include "core/clock.h"
#include "core/mutex.h"
#include "core/status.h"
#include "core/units.h"
#include "executor/device/device_executor.h"

namespace tutti {

/// One per communicator.
class KernelMonitor {
 public:
  /// All arguments outlive this.
  KernelMonitor(const Peers& peers, FailureHandler& failures, WaitJudge& judge)
      : peers_(peers), failures_(failures), judge_(judge) {}

  /// Sets the executor whose kernels these are, before the first call. It is nullptr if the communicator has none.
  void adopt(DeviceExecutor* executor, bool spans_processes) {
    executor_ = executor;
    spans_processes_ = spans_processes;
  }
  /// Whether the last kernel still runs, so that a call which is not put after it on its stream has to wait. Called by
  /// the thread that begins the next call.
  bool is_running() const;
  /// Returns kInProgress, or how such a call ended. Any one thread.
  Status poll(const CallEnd& ended, const Call& call);
  /// Blocks until the last kernel has ended, whose call is `call`, or the communicator has failed.
  Status wait(const Call& call);
  /// Blocks while so many calls are unfinished that another launch might block, or until the communicator has failed.
  Status wait_for_room(const Call& call);
  /// Fails the communicator if a call in a graph has failed.
  Status look_at_graphs();
  /// Does what somebody who waited for a graph's calls would do: looks for their failures, for those that other ranks
  /// report, and for ranks that are gone. Returns false if the communicator has failed. Any thread.
  bool look_after_graphs();

 private:
  Status end_of_kernel(Status status, const Call& call);
  Status look_for_lost_kernels(const std::string& what);

  const Peers& peers_;
  FailureHandler& failures_;
  WaitJudge& judge_;
  DeviceExecutor* executor_ = nullptr;
  bool spans_processes_ = false;
  // A rank that is gone, and how far this rank's kernel had come when that was seen. The progress thread, the
  // service thread and Finalize use them.
  Mutex mutex_;
  Rank lost_ TUTTI_GUARDED_BY(mutex_) = kNoRank;
  std::uint64_t lost_waits_ TUTTI_GUARDED_BY(mutex_) = 0;
  Clock::time_point lost_since_ TUTTI_GUARDED_BY(mutex_){};
};

}  // namespace tutti
