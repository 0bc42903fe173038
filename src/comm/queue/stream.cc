#include "comm/queue/stream.h"

#include <utility>

#include "core/settings.h"

namespace tutti {

Status Stream::create(std::shared_ptr<Stream>* stream) {
  Settings settings;
  TUTTI_TRY(read_settings(&settings));
  std::shared_ptr<ProgressThread> thread;
  TUTTI_TRY(ProgressThread::acquire(settings.progress_cores, &thread));
  *stream = std::make_shared<Stream>(std::move(thread));
  return {};
}

Status Stream::create_from(void* cuda_stream, std::shared_ptr<Stream>* stream) {
  CudaStream cuda;
  TUTTI_TRY(CudaStream::of(cuda_stream, &cuda));
  TUTTI_TRY(create(stream));
  (*stream)->cuda_ = cuda;
  return {};
}

void Stream::enqueue(std::unique_ptr<Operation> operation) {
  const MutexLock lock(thread_->mutex());
  thread_->make_room();
  items_.push_back(Item{std::move(operation), {}});
  thread_->notify(this);
}

void Stream::enqueue(std::function<void(Status)> callback) {
  const MutexLock lock(thread_->mutex());
  thread_->make_room();
  items_.push_back(Item{nullptr, std::move(callback)});
  thread_->notify(this);
}

Status Stream::query() {
  const MutexLock lock(thread_->mutex());
  if (!items_.empty()) return fail(Code::kInProgress, "{} operations are queued on the stream", items_.size());
  return first_error_;
}

Status Stream::refuse_in_callback() const {
  if (!thread_->is_current()) return {};
  return fail(Code::kInvalidUsage, "a stream's callback cannot wait for a stream: all of them share its thread");
}

Status Stream::synchronize() {
  TUTTI_TRY(refuse_in_callback());
  MutexLock lock(thread_->mutex());
  const Deadline deadline = Deadline::in(timeout_seconds_);
  while (!items_.empty()) {
    if (deadline.is_never()) {
      drained_.wait(lock);
    } else if (!drained_.wait_until(lock, deadline.at()) && !items_.empty()) {
      return fail(Code::kTimeout, "the stream still has {} operations after {} s", items_.size(), timeout_seconds_);
    }
  }
  return first_error_;
}

void Stream::set_timeout(double seconds) {
  const MutexLock lock(thread_->mutex());
  timeout_seconds_ = seconds;
}

Status Stream::close() {
  TUTTI_TRY(refuse_in_callback());
  MutexLock lock(thread_->mutex());
  while (!items_.empty()) drained_.wait(lock);
  return {};
}

}  // namespace tutti
