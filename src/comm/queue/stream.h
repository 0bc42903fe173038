// Streams: in-order queues of operations, served by one progress thread a process.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "comm/device/cuda_stream.h"
#include "comm/queue/operation.h"
#include "comm/queue/progress_thread.h"
#include "core/clock.h"
#include "core/mutex.h"
#include "core/status.h"

namespace tutti {

/// One queue. All functions are thread-safe. A stream reports its first error but runs what is queued after it,
/// because that may belong to other communicators.
class Stream {
 public:
  explicit Stream(std::shared_ptr<ProgressThread> thread) : thread_(std::move(thread)) {}

  /// Starts the progress thread with the first stream of the process.
  static Status create(std::shared_ptr<Stream>* stream);
  /// In the order of a CUDA stream, which stays the caller's.
  static Status create_from(void* cuda_stream, std::shared_ptr<Stream>* stream);
  /// Calls are put on cuda() when they are made, and queued here only to be watched.
  bool is_cuda() const { return cuda_.has_value(); }
  const CudaStream& cuda() const { return *cuda_; }
  /// Equal: calls on the two streams are in one order.
  const void* place() const { return is_cuda() ? cuda_->handle() : static_cast<const void*>(this); }

  void enqueue(std::unique_ptr<Operation> operation);
  /// `callback` runs on the progress thread when all queued before it has ended.
  void enqueue(std::function<void(Status)> callback);

  /// kInProgress, the first error, or ok.
  Status query();
  /// Blocks until the queue is empty; kTimeout after `deadline`. Returns the first error.
  Status synchronize();
  void set_timeout(double seconds);
  /// Waits for the work. kInvalidUsage in a callback.
  Status close();
  /// This is the copy in a forked child: nobody runs what is queued.
  bool is_forked() const { return thread_->is_forked(); }

 private:
  friend class ProgressThread;
  struct Item {
    std::unique_ptr<Operation> operation;  // or
    std::function<void(Status)> callback;
  };

  Status refuse_in_callback() const;
  /// Its progress thread calls this: the mutex of that thread is what guards this stream.
  void held_by(ProgressThread& thread) TUTTI_REQUIRES(thread.mutex()) TUTTI_ASSERTS(thread_->mutex()) { (void)thread; }

  std::shared_ptr<ProgressThread> thread_;
  std::optional<CudaStream> cuda_;
  /// The head is the progress thread's while it works on it.
  std::deque<Item> items_ TUTTI_GUARDED_BY(thread_->mutex());
  Status first_error_ TUTTI_GUARDED_BY(thread_->mutex());
  double timeout_seconds_ TUTTI_GUARDED_BY(thread_->mutex()) = 0;
  ConditionVariable drained_;
};

}  // namespace tutti
