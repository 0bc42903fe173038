// The end of a call on a stream.
#pragma once

#include <tutti/tutti.h>
#include <unistd.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace tutti_python {

/// A thread of the library reports it and takes no lock of the interpreter's for it. All functions are thread-safe.
class Outcome {
 public:
  void report(tuttiResult_t result, std::string sentence);
  /// Waits without the interpreter's lock, for at most `seconds` (none: for ever). False: it has not been reported.
  /// Throws InvalidArgument for NaN, InvalidUsage in a forked child, where nobody reports it, and what a signal raises.
  bool wait(std::optional<double> seconds);
  bool is_reported();
  tuttiResult_t result();
  std::string sentence();

 private:
  const pid_t process_ = getpid();
  std::mutex mutex_;
  std::condition_variable reported_;
  bool is_reported_ = false;
  tuttiResult_t result_ = tuttiSuccess;
  std::string sentence_;
};

/// Has the outcome reported when what has been called on the stream by now is done. `comm` is that of the last call.
/// `first_error` is the stream's own, and is set by the first of its calls that fails.
tuttiResult_t report_end(tuttiStream_t stream, tuttiComm_t comm, std::shared_ptr<Outcome> outcome,
                         std::shared_ptr<Outcome> first_error);

}  // namespace tutti_python
