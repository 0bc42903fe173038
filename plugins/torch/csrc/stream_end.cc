#include "stream_end.h"

#include <thread>

#include <c10/core/impl/VirtualGuardImpl.h>

namespace tutti_torch {

TuttiStream::TuttiStream(const c10::Stream& stream) {
  const tuttiResult_t result = tuttiStreamFromCuda(&stream_, native_handle(stream));
  if (result != tuttiSuccess) raise(result, nullptr, "a stream", 0);
}

TuttiStream::~TuttiStream() { say_goodbye(stream_); }

StreamEnd::StreamEnd(const c10::Stream& stream, const c10::Stream& caller, std::vector<at::Tensor> kept)
    : stream_(stream), caller_(caller), event_(stream.device_type()), kept_(std::move(kept)) {}

StreamEnd::~StreamEnd() { let_go(finished_); }

void StreamEnd::record() { event_.record(stream_); }

void StreamEnd::watch(const std::shared_ptr<StreamEnd>& end, const std::shared_ptr<TuttiStream>& calls,
                      std::function<void()> failed) {
  end->calls_ = calls;
  end->failed_ = std::move(failed);
  auto told = std::make_unique<std::shared_ptr<StreamEnd>>(end);
  const auto tell = [](tuttiResult_t result, void* user) {
    const std::unique_ptr<std::shared_ptr<StreamEnd>> whom(static_cast<std::shared_ptr<StreamEnd>*>(user));
    (*whom)->finish(result);
    // Nobody has the work any more. Its tensors may be Python's, and to wait for Python's lock is not for Tutti's
    // thread.
    if (whom->use_count() == 1) std::thread([end = std::move(*whom)]() mutable { end.reset(); }).detach();
  };
  const tuttiResult_t result = tuttiStreamAddCallback(calls->get(), tell, told.get());
  if (result != tuttiSuccess) raise(result, nullptr, "the end of a call", 0);
  static_cast<void>(told.release());
}

void StreamEnd::finish(tuttiResult_t result) {
  std::function<void()> failed;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    finished_ = true;
    result_ = result;
    failed.swap(failed_);
    changed_.notify_all();
  }
  if (result != tuttiSuccess && failed) failed();
}

void StreamEnd::block(const c10::Stream& later) {
  if (later != stream_) event_.block(later);
}

void StreamEnd::order_current() {
  const c10::Stream current = current_stream(stream_.device());
  block(current);
  let_go(current == caller_);
}

// The memory of a tensor goes back to the stream that it was allocated on, and work that is put there later may get it.
// That stream is ordered behind the end, or the allocator is told of the stream that uses it.
void StreamEnd::let_go(bool owner_is_ordered) {
  std::vector<at::Tensor> kept;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    kept.swap(kept_);
  }
  if (owner_is_ordered) return;
  const c10::impl::VirtualGuardImpl device(stream_.device_type());
  for (const at::Tensor& tensor : kept) {
    if (tensor.has_storage()) device.recordDataPtrOnStream(tensor.storage().data_ptr(), stream_);
  }
}

bool StreamEnd::finished() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return finished_;
}

bool StreamEnd::wait(std::chrono::milliseconds limit) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return finished_; });
}

// The sentence is that of Tutti's stream, which waits for nothing once a call there has failed: its communicator has.
std::exception_ptr StreamEnd::error() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!finished_ || result_ == tuttiSuccess) return nullptr;
  }
  try {
    static_cast<void>(tuttiStreamSynchronize(calls_->get()));
    raise(result_, nullptr, "a call on a stream", 0);
  } catch (const std::exception&) {
    return std::current_exception();
  }
}

}  // namespace tutti_torch
