// Moments in which the driver may be asked for what waits for kernels. Allocations, frees and some other calls of a
// driver may wait for all kernels of the process, and keep the launches of all threads out while they wait. A kernel
// whose peer, in another thread of this process, is not launched yet would then never end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/clock.h"
#include "core/mutex.h"

namespace tutti {

/// Counts the calls of the process that some of its ranks have launched and others have not. Such a call is half
/// launched. One per process; any thread.
class HalfLaunchedCalls {
 public:
  static HalfLaunchedCalls& get();

  /// A rank is about to be the first that launches a call. Blocks while another thread is in a QuietMoment.
  void begin();
  /// Kernels that have been launched wait for what does not come any more. Does not block.
  void begin_at_once();
  /// So many calls are not half launched any more.
  void end(std::size_t calls);

 private:
  friend class QuietMoment;
  Mutex mutex_;
  ConditionVariable changed_;
  std::size_t calls_ TUTTI_GUARDED_BY(mutex_) = 0;    // half launched now
  std::uint64_t ended_ TUTTI_GUARDED_BY(mutex_) = 0;  // all that were and are not any more
  // What ended_ was when somebody had given up waiting. Until it grows, a missing rank may wait for a moment itself.
  std::optional<std::uint64_t> stuck_at_ TUTTI_GUARDED_BY(mutex_);
  std::size_t moments_ TUTTI_GUARDED_BY(mutex_) = 0;  // QuietMoments that there are now
};

/// While it is there, no call of the process becomes half launched. Several threads may be in such a moment.
class QuietMoment {
 public:
  /// Waits at most until the deadline for a moment in which no call is half launched; not at all if somebody has given
  /// up waiting since the last call was launched by all.
  explicit QuietMoment(Deadline deadline);
  /// Does not wait.
  QuietMoment();
  ~QuietMoment();
  QuietMoment(const QuietMoment&) = delete;
  QuietMoment& operator=(const QuietMoment&) = delete;

  /// False if some call is half launched, so that what waits for kernels may wait for this thread.
  bool is_quiet() const { return is_quiet_; }
  /// How long a step of a join waits. Then it goes on, quiet or not.
  static Deadline of_a_join() { return Deadline::in(2); }

 private:
  HalfLaunchedCalls& all_ = HalfLaunchedCalls::get();
  bool is_quiet_ = false;
};

/// What frees memory after a communicator's end, and may wait for kernels. It runs in a quiet moment: now, or when
/// somebody adds another one or calls sweep(). One per process; any thread.
class QuietFrees {
 public:
  static QuietFrees& get();
  void add(std::function<void()> free);
  /// Runs what could not run before, if this is a quiet moment.
  void sweep();

 private:
  Mutex mutex_;
  std::vector<std::function<void()>> frees_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti
