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

StreamEnd::~StreamEnd() { let_go(/*owner_is_ordered=*/false); }

void StreamEnd::record() {
  is_captured_ = is_captured(stream_);
  event_.record(stream_);
}

void StreamEnd::watch(const std::shared_ptr<TuttiStream>& calls, std::function<void()> failed) {
  calls_ = calls;
  outcome_->failed = std::move(failed);
  auto told = std::make_unique<std::shared_ptr<Outcome>>(outcome_);
  const auto tell = [](tuttiResult_t result, void* user) {
    const std::unique_ptr<std::shared_ptr<Outcome>> whom(static_cast<std::shared_ptr<Outcome>*>(user));
    (*whom)->finish(result);
  };
  const tuttiResult_t result = tuttiStreamAddCallback(calls->get(), tell, told.get());
  if (result != tuttiSuccess) raise(result, nullptr, "the end of a call", 0);
  static_cast<void>(told.release());
}

void StreamEnd::Outcome::finish(tuttiResult_t ended) {
  std::function<void()> to_call;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    finished = true;
    result = ended;
    to_call.swap(failed);
    changed.notify_all();
  }
  if (ended != tuttiSuccess && to_call) to_call();
}

// Tutti tells of its calls; copies of results may follow them on the stream. To ask for an event of a capture would
// spoil the capture, and there is nothing to wait for: what is captured runs when the graph does.
bool StreamEnd::has_come() const { return is_captured_ || event_.query(); }

void StreamEnd::block(const c10::Stream& later) {
  if (later != stream_) event_.block(later);
}

void StreamEnd::order_current() {
  const c10::Stream current = current_stream(stream_.device());
  block(current);
  let_go(current == caller_);
}

// The memory of a tensor goes back to the stream that it was allocated on, and work that is put there later may get it.
// If that stream does not wait for the end, the allocator must know which stream still uses the memory.
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
  {
    const std::lock_guard<std::mutex> lock(outcome_->mutex);
    if (!outcome_->finished) return false;
    if (outcome_->result != tuttiSuccess) return true;
  }
  return has_come();
}

bool StreamEnd::wait(std::chrono::milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  {
    std::unique_lock<std::mutex> lock(outcome_->mutex);
    if (!outcome_->changed.wait_until(lock, until, [this] { return outcome_->finished; })) return false;
  }
  while (!finished()) {  // streams tell nobody; what is left are copies on the device
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

// The sentence is that of Tutti's stream, which waits for nothing once a call there has failed: its communicator has.
std::exception_ptr StreamEnd::error() {
  tuttiResult_t result = tuttiSuccess;
  {
    const std::lock_guard<std::mutex> lock(outcome_->mutex);
    result = outcome_->result;
  }
  if (result == tuttiSuccess) return nullptr;
  try {
    static_cast<void>(tuttiStreamSynchronize(calls_->get()));
    raise(result, nullptr, "a call on a stream", 0);
  } catch (const std::exception&) {
    return std::current_exception();
  }
}

}  // namespace tutti_torch
