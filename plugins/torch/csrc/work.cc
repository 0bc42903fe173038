#include "work.h"

#include <thread>

#include "cuda_bridge.h"

namespace tutti_torch {
namespace {

std::optional<std::vector<at::Tensor>> profiled(std::vector<at::Tensor>&& inputs) {
  if (inputs.empty()) return std::nullopt;
  return std::move(inputs);
}

std::vector<c10::Device> devices_of(const std::vector<at::Tensor>& tensors) {
  std::vector<c10::Device> devices;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && !tensor.device().is_cpu() &&
        std::find(devices.begin(), devices.end(), tensor.device()) == devices.end())
      devices.push_back(tensor.device());
  }
  return devices;
}

}  // namespace

TuttiWork::TuttiWork(Description description, std::shared_ptr<Carrier> carrier)
    : c10d::Work(description.rank, description.type, description.title.c_str(),
                 profiled(std::move(description.inputs))),
      outputs_(std::move(description.outputs)),
      sequence_(description.sequence),
      timeout_(description.timeout),
      carrier_(std::move(carrier)) {}

bool TuttiWork::isCompleted() { return over(); }
bool TuttiWork::isSuccess() const { return over() && exception_ == nullptr; }
std::exception_ptr TuttiWork::exception() const { return over() ? exception_ : nullptr; }
int TuttiWork::sourceRank() const { return source; }

std::vector<at::Tensor> TuttiWork::result() {
  TORCH_CHECK(over(), "tutti: result() of a work that is not completed");
  return outputs_;
}

void TuttiWork::synchronize() {
  if (!over()) carrier_->help(*this);  // before that nothing is queued that streams could be ordered behind
  order_current_streams(outputs_);
}

bool TuttiWork::wait_idle(std::chrono::milliseconds limit) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto finished = [this] { return over(); };
  if (limit.count() > 0) return cv_.wait_for(lock, limit, finished);
  cv_.wait(lock, finished);
  return true;
}

bool TuttiWork::wait(std::chrono::milliseconds timeout) {
  if (!over()) {
    if (timeout == kNoTimeout) {
      carrier_->help(*this);
    } else if (!wait_idle(timeout)) {
      carrier_->give_up(*this);
      if (!over()) {
        C10_THROW_ERROR(DistBackendError, c10::str("tutti: wait: ", c10d::opTypeToString(retrieveOpType()),
                                                   " is not done after ", timeout.count(), " ms"));
      }
    }
  }
  if (exception_) std::rethrow_exception(exception_);
  synchronize();
  return true;
}

void TuttiWork::abort() { TORCH_CHECK(false, "tutti: one work cannot be aborted; abort the process group"); }

void TuttiWork::complete(std::exception_ptr error) {
  c10::intrusive_ptr<c10::ivalue::Future> future;
  std::vector<std::function<void()>> observers;
  body = nullptr;                    // what it holds, tensors above all, is free from here
  if (recordFunctionEndCallback_) {  // before anybody who waits may end the profile that it writes into
    recordFunctionEndCallback_();
    recordFunctionEndCallback_ = nullptr;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    exception_ = std::move(error);
    completed_ = true;
    over_.store(true, std::memory_order_release);
    future = future_;
    observers.swap(observers_);
  }
  cv_.notify_all();
  if (future && callbacks_aside) {
    const auto self = c10::intrusive_ptr<TuttiWork>::unsafe_reclaim_from_nonowning(this);
    std::thread([self, future] { self->finish_future(future); }).detach();
  } else if (future) {
    finish_future(future);
  }
  for (const auto& observer : observers) observer();
}

void TuttiWork::observe(std::function<void()> observer) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!over()) return observers_.push_back(std::move(observer));
  }
  observer();
}

// The future is made when it is asked for: a call that blocks has none.
c10::intrusive_ptr<c10::ivalue::Future> TuttiWork::getFuture() {
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (future_) return future_;
    future = future_ =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), devices_of(outputs_));
    if (!over()) return future;
  }
  finish_future(future);
  return future;
}

void TuttiWork::finish_future(const c10::intrusive_ptr<c10::ivalue::Future>& future) {
  if (exception_) return future->setError(exception_);
  const StreamScope scope(outputs_);  // the future records its events on the stream that wrote the results
  future->markCompleted(c10::IValue(outputs_));
}

}  // namespace tutti_torch
