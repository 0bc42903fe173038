// A stream is an in-order queue of operations. One progress thread of the process serves all streams.
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
  /// Makes a stream in the order of a CUDA stream, which stays the caller's.
  static Status create_from(void* cuda_stream, std::shared_ptr<Stream>* stream);
  /// Whether calls are put on cuda() when they are made, and queued here only to be watched.
  bool is_cuda() const { return cuda_.has_value(); }
  const CudaStream& cuda() const { return *cuda_; }
  /// If it is equal on two streams, their calls are in one order.
  const void* place() const { return is_cuda() ? cuda_->handle() : static_cast<const void*>(this); }

  void enqueue(std::unique_ptr<Operation> operation);
  /// `callback` runs on the progress thread when all that was queued before it has ended.
  void enqueue(std::function<void(Status)> callback);

  /// kInProgress, the first error, or ok.
  Status query();
  /// Blocks until the queue is empty; kTimeout after `deadline`. Returns the first error.
  Status synchronize();
  void set_timeout(double seconds);
  /// Waits for the work. Returns kInvalidUsage in a callback.
  Status close();
  /// Whether this is the copy in a forked child, where nobody runs what is queued.
  bool is_forked() const { return thread_->is_forked(); }

 private:
  friend class ProgressThread;
  struct Item {
    std::unique_ptr<Operation> operation;  // or
    std::function<void(Status)> callback;
  };

  Status refuse_in_callback() const;
  /// Its progress thread calls this, and so asserts to the compiler that it holds the mutex that guards this stream.
  void held_by(ProgressThread& thread) TUTTI_REQUIRES(thread.mutex()) TUTTI_ASSERTS(thread_->mutex()) { (void)thread; }

  std::shared_ptr<ProgressThread> thread_;
  std::optional<CudaStream> cuda_;
  /// The head belongs to the progress thread while that works on it.
  std::deque<Item> items_ TUTTI_GUARDED_BY(thread_->mutex());
  Status first_error_ TUTTI_GUARDED_BY(thread_->mutex());
  double timeout_seconds_ TUTTI_GUARDED_BY(thread_->mutex()) = 0;
  ConditionVariable drained_;
};

}  // namespace tutti
