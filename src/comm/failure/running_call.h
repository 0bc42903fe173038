// The operation that a communicator runs, or ran last.
#pragma once

#include <cstdint>

#include "core/fingerprint.h"
#include "executor/executor.h"

namespace tutti {

/// Written by the thread whose turn it is. If it is sends and receives, the collective of its call is kSendRecv.
struct RunningCall {
  enum class Way : std::uint8_t {
    kHost,
    kStaged,  ///< device buffers that go through host memory
    kDevice,  ///< run by a kernel
  };
  Call call;
  Executor* executor = nullptr;
  Way way = Way::kHost;
  double timeout = 0;  ///< in seconds, as it was when the operation began; 0 means for ever

  bool is_point_to_point() const { return call.collective == Collective::kSendRecv; }
  /// Whether it is a collective in which no rank has anything to move. An all-to-all-v never counts as one, because no
  /// rank knows all counts.
  bool is_empty() const {
    return call.count == 0 && call.collective != Collective::kBarrier && call.collective != Collective::kAllToAllV;
  }
};

}  // namespace tutti
