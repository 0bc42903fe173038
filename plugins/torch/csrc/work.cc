#include "work.h"

#include <algorithm>
#include <thread>

#include "stream_end.h"

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

bool TuttiWork::isCompleted() { return has_ended(); }

bool TuttiWork::has_ended() const {
  return over() && std::all_of(ends_.begin(), ends_.end(), [](const auto& end) { return end->finished(); });
}

bool TuttiWork::isSuccess() const { return has_ended() && exception() == nullptr; }

std::exception_ptr TuttiWork::exception() const {
  if (!over()) return nullptr;
  std::exception_ptr error = exception_;
  for (std::size_t i = 0; i < ends_.size() && !error; ++i) error = ends_[i]->error();
  return error;
}

void TuttiWork::add_ends(const std::vector<std::shared_ptr<StreamEnd>>& ends) {
  ends_.insert(ends_.end(), ends.begin(), ends.end());
}

int TuttiWork::sourceRank() const { return source; }

std::vector<at::Tensor> TuttiWork::result() {
  TORCH_CHECK(over(), "tutti: result() of a work that is not completed");
  return outputs_;
}

void TuttiWork::synchronize() {
  if (!over()) carrier_->help(*this);  // before that nothing is queued that streams could be ordered behind
  for (const auto& end : ends_) end->order_current();
}

void TuttiWork::wait_for_ends(std::chrono::milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  for (const auto& end : ends_) {
    const auto left = until - std::chrono::steady_clock::now();
    if (end->wait(std::chrono::ceil<std::chrono::milliseconds>(left))) continue;
    C10_THROW_ERROR(DistBackendError, c10::str("tutti: wait: ", c10d::opTypeToString(retrieveOpType()),
                                               " is not done after ", limit.count(), " ms"));
  }
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
  if (timeout != kNoTimeout) wait_for_ends(timeout);
  if (const std::exception_ptr error = exception()) std::rethrow_exception(error);
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
  // The future records its events on current streams, which are to be those that hold the results.
  std::vector<c10::Stream> streams;
  for (const auto& end : ends_) {
    const auto same = std::find_if(streams.begin(), streams.end(), [&](const c10::Stream& stream) {
      return stream.device() == end->stream().device();
    });
    if (same == streams.end())
      streams.push_back(end->stream());
    else
      end->block(*same);
  }
  const c10::MultiStreamGuard guard(streams);
  future->markCompleted(c10::IValue(outputs_));
}

}  // namespace tutti_torch
