#include "outcome.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "errors.h"
#include "unlocked.h"

namespace tutti_python {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kSliceOfWait(50);  // so that Ctrl-C ends a wait
constexpr double kForEver = 1e9;                       // seconds; more would not fit into the clock

/// The argument of a stream's callback.
struct Watched {
  tuttiComm_t comm;
  std::shared_ptr<Outcome> outcome, first_error;
};

void report(tuttiResult_t result, void* user) {
  const std::unique_ptr<Watched> watched(static_cast<Watched*>(user));
  if (result == tuttiSuccess) return watched->outcome->report(result, "");
  tuttiResult_t of_communicator = tuttiSuccess;
  const bool is_gone = tuttiCommGetAsyncError(watched->comm, &of_communicator) != tuttiSuccess;
  if (is_gone || of_communicator == result) {
    const std::string sentence = is_gone ? tuttiGetErrorString(result) : tuttiGetLastError(watched->comm);
    watched->first_error->report(result, sentence);
    return watched->outcome->report(result, sentence);
  }
  // A stream goes on to report its first error, which another communicator's call may have had.
  watched->outcome->report(result, "an earlier call on the stream failed: " + watched->first_error->sentence());
}

}  // namespace

void Outcome::report(tuttiResult_t result, std::string sentence) {
  const std::lock_guard lock(mutex_);
  if (is_reported_) return;
  is_reported_ = true;
  result_ = result;
  sentence_ = std::move(sentence);
  reported_.notify_all();
}

bool Outcome::wait(std::optional<double> seconds) {
  if (seconds && std::isnan(*seconds)) raise(tuttiInvalidArgument, "the timeout is not a number");
  if (seconds && *seconds > kForEver) seconds.reset();
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(std::max(0.0, seconds.value_or(0))));
  while (true) {
    if (getpid() != process_) raise(tuttiInvalidUsage, "the call was made in another process, of which this is a fork");
    {
      const Unlocked unlocked;
      std::unique_lock lock(mutex_);
      const auto slice = Clock::now() + kSliceOfWait;
      const auto until = seconds ? std::min(slice, deadline) : slice;
      if (reported_.wait_until(lock, until, [this] { return is_reported_; })) return true;
    }
    if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
    if (seconds && Clock::now() >= deadline) return is_reported();
  }
}

bool Outcome::is_reported() {
  const std::lock_guard lock(mutex_);
  return is_reported_;
}

tuttiResult_t Outcome::result() {
  const std::lock_guard lock(mutex_);
  return result_;
}

std::string Outcome::sentence() {
  const std::lock_guard lock(mutex_);
  return sentence_;
}

tuttiResult_t report_end(tuttiStream_t stream, tuttiComm_t comm, std::shared_ptr<Outcome> outcome,
                         std::shared_ptr<Outcome> first_error) {
  auto watched = std::make_unique<Watched>(Watched{comm, std::move(outcome), std::move(first_error)});
  const tuttiResult_t result = tuttiStreamAddCallback(stream, report, watched.get());
  if (result == tuttiSuccess) watched.release();
  return result;
}

}  // namespace tutti_python
