// A stream wait is a wait for calls that the progress thread runs.
#pragma once

#include <cstdint>
#include <map>

#include "core/clock.h"
#include "core/status.h"
#include "core/units.h"

namespace tutti {

class Communicator;
class FailureHandler;

/// These calls end by themselves, at their own timeouts at the latest, as long as the progress thread goes its rounds.
/// If a callback holds that thread up, the wait ends a little later than a call would have. Of the time in which
/// this whole process was stopped only a moment counts, so that the progress thread can run after it, too. One thread.
class StreamWait {
 public:
  /// `timeout` is how long a call may take, in seconds; 0 means for ever.
  StreamWait(FailureHandler& failures, Rank rank, double timeout);
  /// Called now and then. If it returns an error, the wait is over, and the communicator has failed.
  Status check();

 private:
  FailureHandler& failures_;
  const Rank rank_;
  const double limit_;  // in seconds without a round; 0 if there is no limit
  std::uint64_t rounds_;
  double waited_ = 0;  // since the last round or the failure, in seconds
  Clock::time_point looked_ = Clock::now();
  bool ending_ = false;  // the communicator has failed
};

/// One wait for each communicator, for a thread that waits for several. One thread.
class StreamWaits {
 public:
  /// The communicator waits, and has done so since the last end(). It does what StreamWait::check() does.
  Status check(Communicator& comm);
  /// The communicator does not wait, or waits only for calls that this thread runs.
  void end(Communicator& comm) { waits_.erase(&comm); }

 private:
  std::map<Communicator*, StreamWait> waits_;
};

}  // namespace tutti
