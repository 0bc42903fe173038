#include "comm/stream.h"

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
  DeviceDriver* const driver = device_driver();
  if (driver == nullptr) return fail(Code::kUnsupported, "this process has no CUDA device");
  DeviceDriver::StreamTraits traits;
  void* const handle = cuda_stream == nullptr ? driver->default_stream() : cuda_stream;
  TUTTI_TRY(driver->look_at(handle, &traits));
  TUTTI_TRY(create(stream));
  (*stream)->is_cuda_ = true;
  (*stream)->cuda_ = handle;
  (*stream)->is_per_thread_ = handle == driver->per_thread_stream();
  (*stream)->traits_ = traits;
  return {};
}

Status Stream::place_on(int device, StreamPlace* place) const {
  if (traits_.device >= 0 && device >= 0 && traits_.device != device)
    return fail(Code::kInvalidArgument, "the CUDA stream is one of device {}, and the call one for device {}",
                traits_.device, device);
  *place = StreamPlace{};
  place->device = traits_.device >= 0 ? traits_.device : device;
  place->handle = cuda_;
  place->thread = is_per_thread_ ? stream_thread() : 0;
  place->is_default = cuda_ == device_driver()->default_stream();
  place->is_apart = traits_.is_apart;
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
