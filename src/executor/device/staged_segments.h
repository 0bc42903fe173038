// The segments that a staged call consists of. Each is brought to host memory, worked on there by the host's executor,
// and taken away again.
#pragma once

#include <cstddef>

#include "core/status.h"
#include "executor/executor.h"

namespace tutti {

/// The segments of one call. The thread that drives its executor calls load(), run() and store(), each of them for one
/// segment after another.
class StagedSegments {
 public:
  /// The staging memory of a segment's input, and of its output. It is large enough that copies run at the bus's rate,
  /// and small enough that the first and the last copy, which nothing hides, are short. Not measured yet.
  static constexpr std::size_t kBytes = std::size_t{4} << 20;

  virtual ~StagedSegments() = default;
  virtual std::size_t count() const = 0;
  /// The staging memory that a segment's input or output needs, if it may be more than kBytes.
  virtual std::size_t segment_bytes() const { return 0; }
  /// Puts on the copies' stream what brings a segment's input to `in`.
  virtual Status load(std::size_t segment, std::byte* in) = 0;
  /// Starts the host's part of the segment.
  virtual void run(std::size_t segment, std::byte* in, std::byte* out, Executor& host) = 0;
  /// Moves what can be moved of the host's part, without blocking, as Executor::advance() does.
  virtual Status advance(Executor& host, Progress* outcome) {
    *outcome = host.advance();
    return {};
  }
  /// Whether the last advance() waited for copies, perhaps besides peers.
  virtual bool waits_for_copies() const { return false; }
  /// Puts on the copies' stream what takes the segment's result away from `out`.
  virtual Status store(std::size_t segment, const std::byte* out) = 0;
  /// Called when the call has ended and no copy uses anything of it.
  virtual void end() {}
};

}  // namespace tutti
