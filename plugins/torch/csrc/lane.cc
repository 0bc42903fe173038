#include "lane.h"

#include <thread>

namespace tutti_torch {
void Lane::submit(const WorkPointer& work, bool blocking) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (closed_) C10_THROW_ERROR(DistBackendError, "tutti: " + reason_);
  if (blocking && !running_ && queue_.empty()) return run_own(work, lock, false);
  queue_.push_back(work);
  if (blocking) {
    lock.unlock();
    return help(*work);
  }
  call_worker();
}

// A work completes outside the lock and after `running_` is given back: observers of its end may submit and wait. It is
// let go of outside the lock, too: to free a tensor may take Python's lock, whose owner may want this one.
void Lane::run_own(WorkPointer work, std::unique_lock<std::mutex>& lock, bool worker) {
  running_ = true;
  lock.unlock();
  std::exception_ptr error;
  try {
    work->body();
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  running_ = false;
  if (worker) --free_workers_;  // callbacks of the future may hold it up, and may wait for what is queued
  if (!queue_.empty()) call_worker();
  if (waiters_ > 0) for_waiters_.notify_all();
  lock.unlock();
  work->complete(std::move(error));
  work.reset();
  lock.lock();
  if (worker) ++free_workers_;
}

// A worker that is awake and free looks at the queue by itself.
void Lane::call_worker() {
  if (sleeping_workers_ > 0) return for_worker_.notify_one();
  if (free_workers_ > 0) return;
  ++free_workers_;
  std::thread([self = shared_from_this()] { self->serve(); }).detach();
}

bool Lane::run_head(std::unique_lock<std::mutex>& lock, bool worker) {
  if (running_ || queue_.empty()) return false;
  WorkPointer work = std::move(queue_.front());
  queue_.pop_front();
  run_own(std::move(work), lock, worker);
  return true;
}

void Lane::help(TuttiWork& work) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!work.over()) {
    if (run_head(lock, false)) continue;
    if (!running_) {  // carried out, and being completed by another thread
      lock.unlock();
      work.wait_idle(std::chrono::milliseconds(0));
      return;
    }
    ++waiters_;
    for_waiters_.wait(lock, [&] { return !running_ || work.over(); });
    --waiters_;
  }
}

bool Lane::drain(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::unique_lock<std::mutex> lock(mutex_);
  while (running_ || !queue_.empty()) {
    if (run_head(lock, false)) continue;
    ++waiters_;
    const bool moved = for_waiters_.wait_until(lock, end, [&] { return !running_; });
    --waiters_;
    if (!moved) return false;
  }
  return true;
}

bool Lane::idle() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return !running_ && queue_.empty();
}

void Lane::close(const std::string& reason) {
  std::deque<WorkPointer> left;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!closed_) reason_ = reason;
    closed_ = true;
    left.swap(queue_);
    for_worker_.notify_all();
    for_waiters_.notify_all();
  }
  for (const WorkPointer& work : left) {
    work->complete(std::make_exception_ptr(
        c10::DistBackendError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, "tutti: " + reason)));
  }
}

void Lane::serve() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    ++sleeping_workers_;
    for_worker_.wait(lock, [this] { return closed_ || (!running_ && !queue_.empty()); });
    --sleeping_workers_;
    if (closed_) return;
    if (patience_.count() > 0) {
      const TuttiWork* const head = queue_.front().get();
      for_waiters_.wait_for(lock, patience_,
                            [&] { return running_ || queue_.empty() || queue_.front().get() != head; });
    }
    while (run_head(lock, true)) {
    }
  }
}

}  // namespace tutti_torch
