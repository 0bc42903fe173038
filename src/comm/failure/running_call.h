// The operation that a communicator runs, or ran last.
#pragma once

#include <cstdint>

#include "core/fingerprint.h"
#include "executor/executor.h"

namespace tutti {

/// Written by the thread whose turn it is. Of sends and receives the call has the collective kSendRecv.
struct RunningCall {
  enum class Way : std::uint8_t {
    kHost,
    kStaged,  ///< device buffers that go through host memory
    kDevice,  ///< a kernel's
  };
  Call call;
  Executor* executor = nullptr;
  Way way = Way::kHost;
  double timeout = 0;  ///< seconds, as it was when the operation began; 0: for ever

  bool is_point_to_point() const { return call.collective == Collective::kSendRecv; }
  /// A collective in which no rank has anything to move. Of an all-to-all-v nobody knows all counts.
  bool is_empty() const {
    return call.count == 0 && call.collective != Collective::kBarrier && call.collective != Collective::kAllToAllV;
  }
};

}  // namespace tutti
