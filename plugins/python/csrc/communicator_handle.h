// The owner of a tuttiComm_t, and the list of those that are open.
#pragma once

#include <tutti/tutti.h>

#include <atomic>
#include <memory>

namespace tutti_python {

/// Owns a tuttiComm_t from its join to close or abort. All functions are thread-safe, and are called with the
/// interpreter's lock held.
class CommunicatorHandle {
 public:
  /// Makes it one of those that close_all closes.
  static std::shared_ptr<CommunicatorHandle> open(tuttiComm_t comm);

  bool is_closed() const { return is_closing_ || comm_ == nullptr; }
  /// Throws InvalidUsage if it is closed, or about to be.
  tuttiComm_t get() const;
  /// Waits for the other ranks. A second close does nothing. tuttiInvalidUsage: another thread's call is under way, and
  /// it stays open.
  tuttiResult_t close();
  /// Also ends a close that waits.
  void abort();

 private:
  explicit CommunicatorHandle(tuttiComm_t comm) : comm_(comm) {}

  std::atomic<tuttiComm_t> comm_;         // NULL once it is freed, by close or abort of any thread
  std::atomic<bool> is_closing_ = false;  // set by close, read by all others
};

/// Closes all that are open, the last made first, and aborts those that another thread is using or closing. The
/// interpreter calls it before it ends.
void close_all();

}  // namespace tutti_python
