#include "comm/queue/progress_thread.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <exception>

#include "comm/progress_state.h"
#include "comm/queue/stream.h"
#include "core/library_thread.h"
#include "core/log.h"
#include "core/mutex.h"
#include "core/retry.h"

namespace tutti {

namespace {

/// The process's progress thread. A forked child has none, even if it has a copy of the object.
struct ProgressRegistry {
  Mutex mutex;
  std::weak_ptr<ProgressThread> current TUTTI_GUARDED_BY(mutex);

  // It is never destroyed, because a child may be forked while the process ends.
  static ProgressRegistry& get() {
    static ProgressRegistry* const instance = [] {
      ::pthread_atfork(before_fork, after_fork, in_child);
      return new ProgressRegistry;
    }();
    return *instance;
  }
  static void before_fork() TUTTI_ACQUIRE(get().mutex) { get().mutex.lock(); }
  static void after_fork() TUTTI_RELEASE(get().mutex) { get().mutex.unlock(); }
  static void in_child() TUTTI_RELEASE(get().mutex) {
    if (const auto parents = get().current.lock()) parents->was_forked();
    get().current.reset();
    get().mutex.unlock();
  }
};

}  // namespace

Status ProgressThread::acquire(const std::vector<int>& cores, std::shared_ptr<ProgressThread>* thread) {
  ProgressRegistry& registry = ProgressRegistry::get();
  const MutexLock lock(registry.mutex);
  *thread = registry.current.lock();
  if (*thread != nullptr) return {};
  const std::shared_ptr<ProgressThread> made(new ProgressThread);
  TUTTI_TRY(start_thread(
      "tutti-progress", [raw = made.get(), cores] { raw->main(cores); }, &made->thread_));
  registry.current = *thread = made;
  return {};
}

ProgressThread::~ProgressThread() {
  if (!thread_.joinable()) return;  // the thread could not be started
  if (is_forked()) {                // the thread is the parent's; it may hold the mutex
    thread_.detach();
    return;
  }
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    work_.notify_all();
  }
  // A callback may destroy the last stream, and callbacks run on this very thread.
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void ProgressThread::make_room() {
  busy_.reserve(busy_.size() + 1);
  room_.reserve(busy_.size() + 1);
}

void ProgressThread::notify(Stream* stream) {
  ++queued_;
  if (std::find(busy_.begin(), busy_.end(), stream) == busy_.end()) busy_.push_back(stream);
  if (sleeper_ != nullptr) sleeper_->wake();
  work_.notify_all();
}

void ProgressThread::forget(Stream* stream) { std::erase(busy_, stream); }

namespace {

void pin_to(const std::vector<int>& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  if (pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0) return;
  retry_without_memory(
      [] { log(LogLevel::kWarn, {}, "TUTTI_PROGRESS_CORES names no core that this process may use"); });
}

}  // namespace

void ProgressThread::main(const std::vector<int>& cores) {
  ProgressState::enter();
  pin_to(cores);
  OperationLadder ladder;
  std::vector<Stream*> active;
  std::uint64_t before = 0;
  for (bool goes_on = true; goes_on;) {
    try {
      goes_on = go_round(&ladder, &active, &before);
    } catch (const std::bad_alloc&) {  // what has not been done is still queued
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
  }
}

/// Returns false if this thread is to end.
bool ProgressThread::go_round(OperationLadder* ladder, std::vector<Stream*>* active, std::uint64_t* before) {
  {
    MutexLock lock(mutex_);
    while (!stop_ && busy_.empty()) work_.wait(lock);
    if (stop_) return false;
    // make_room() has allocated memory for the copy. If the copy had to allocate and failed, no operation would come to
    // its deadline.
    if (active->capacity() < room_.capacity()) active->swap(room_);
    *active = busy_;
  }
  ProgressState::count_round();
  std::uint64_t moved = 0;
  const bool ended = poll_streams(active, ladder->is_check_due(), &moved);
  if (ladder->climb(ended || moved != *before)) sleep(*active, *ladder);
  *before = moved;
  return true;
}

bool ProgressThread::poll_streams(std::vector<Stream*>* active, bool check, std::uint64_t* moved) {
  bool ended = false;
  for (Stream* stream : *active) ended = poll_head(stream, check, moved) || ended;
  return ended;
}

// An exception that leaves this thread would end the process.
Status ProgressThread::call_back(const std::function<void(Status)>& callback, const Status& so_far) {
  if (!callback) return {};
  try {
    callback(so_far);
    return {};
  } catch (...) {
    return what_was_thrown("a callback of the stream");
  }
}

// The head item belongs to this thread until retire(), because others only append, which leaves references into a deque
// valid.
bool ProgressThread::poll_head(Stream* stream, bool check, std::uint64_t* moved) {
  Stream::Item* item = nullptr;
  Status so_far;
  {
    const MutexLock lock(mutex_);
    stream->held_by(*this);
    item = &stream->items_.front();
    so_far = stream->first_error_;
  }
  // A callback is called once, even if memory runs out before its item is gone.
  if (item->operation == nullptr) {
    retire(stream, call_back(std::exchange(item->callback, {}), so_far));
    return true;
  }
  Operation& operation = *item->operation;
  const bool ended = operation.poll(check) == Operation::State::kEnded;
  *moved += operation.progress() + static_cast<std::uint64_t>(operation.state());
  if (ended) retire(stream, operation.status());
  return ended;
}

void ProgressThread::retire(Stream* stream, Status status) {
  Stream::Item item;  // destroyed without the lock, because it may hold the last reference to a communicator
  const MutexLock lock(mutex_);
  stream->held_by(*this);
  if (!status.ok() && stream->first_error_.ok()) stream->first_error_ = std::move(status);
  item = std::move(stream->items_.front());
  stream->items_.pop_front();
  if (!stream->items_.empty()) return;
  forget(stream);
  stream->drained_.notify_all();
}

// If one operation is under way, the thread sleeps on that operation's futex. If there are several, it naps between
// two looks at them.
void ProgressThread::sleep(const std::vector<Stream*>& active, const OperationLadder& ladder) {
  MutexLock lock(mutex_);
  const std::uint64_t queued = queued_;
  if (stop_ || busy_ != active) return;
  Stream* const stream = active.front();
  stream->held_by(*this);
  Operation* const only = active.size() == 1 ? stream->items_.front().operation.get() : nullptr;
  if (only == nullptr || !only->can_sleep()) {
    int ranks_per_core = 1;
    for (Stream* const one : active) {
      one->held_by(*this);
      if (const auto& operation = one->items_.front().operation; operation != nullptr)
        ranks_per_core = std::max(ranks_per_core, operation->comm().ranks_per_core());
    }
    const Clock::time_point end = Clock::now() + ladder.nap(std::chrono::milliseconds{1}, ranks_per_core);
    while (!stop_ && queued_ == queued && work_.wait_until(lock, end)) continue;
    return;
  }
  sleeper_ = &only->links();
  sleeper_->announce_sleep();
  lock.unlock();
  only->sleep();
  lock.lock();
  sleeper_ = nullptr;
}

}  // namespace tutti
