#include "net/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>
#include <utility>

#include "core/mutex.h"
#include "net/fork_guard.h"

namespace tutti {
namespace {

constexpr std::uint64_t kDoorbellToken = 0;
constexpr std::size_t kScratchBytes = 64 * 1024;
constexpr std::size_t kEventsATurn = 64;
/// After a while in which this process was stopped, what its timers would give up may lie unread in a socket: events go
/// first, for so many turns.
constexpr int kMostTurnsWithoutTimers = 64;
constexpr int kTellAgainMilliseconds = 100;
constexpr std::chrono::milliseconds kPauseAfterException{10};

}  // namespace

EventLoop::~EventLoop() { close(); }

void EventLoop::close() {
  const MutexLock lock(mutex_);
  stopped_ = true;
  if (epoll_.valid()) unguard_descriptor(epoll_.get());
  if (doorbell_.valid()) unguard_descriptor(doorbell_.get());
  epoll_.reset();
  doorbell_.reset();
}

Status EventLoop::open() {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return fail(Code::kSystemError, "cannot create an epoll set: {}", errno_text());
  guard_descriptor(epoll_.get());
  doorbell_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!doorbell_.valid()) return fail(Code::kSystemError, "cannot create an eventfd: {}", errno_text());
  guard_descriptor(doorbell_.get());
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kDoorbellToken;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, doorbell_.get(), &event) != 0)
    return fail(Code::kSystemError, "cannot watch an eventfd: {}", errno_text());
  scratch_.resize(kScratchBytes);
  return {};
}

void EventLoop::run(const std::function<void(const Status& why)>& thrown) {
  thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  while (turn()) {
    if (thrown_.ok()) continue;
    tell_thrown(thrown);
    std::this_thread::sleep_for(kPauseAfterException);  // the same event may come again at once
  }
  timers_.clear();
  due_.clear();
  watched_.clear();
  tokens_.clear();
  std::vector<std::function<void()>> dropped;
  {
    const MutexLock lock(mutex_);
    dropped.swap(posted_);
  }
}

/// False: the loop was stopped.
bool EventLoop::turn() {
  std::array<epoll_event, kEventsATurn> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), sleep_milliseconds());
  // When a stopped process goes on, epoll_wait returns EINTR, and timers may be overdue. Events that came during the
  // stop are handled before those timers.
  const bool interrupted = count < 0 && errno == EINTR;
  for (std::size_t i = 0; i < static_cast<std::size_t>(std::max(count, 0)); ++i)
    run_guarded([&] { dispatch(events[i].data.u64, events[i].events); });
  if ((count <= 0 && !interrupted) || ++turns_without_timers_ >= kMostTurnsWithoutTimers) {
    turns_without_timers_ = 0;
    run_timers();
  }
  run_posted();
  const MutexLock lock(mutex_);
  return !stopped_;
}

template <class Task>
void EventLoop::run_guarded(const Task& task) noexcept {
  try {
    task();
  } catch (...) {
    thrown_ = what_was_thrown("a task");
  }
}

/// Passes on why a handler or task ended early. If that throws, too, the next turn tries again.
void EventLoop::tell_thrown(const std::function<void(const Status& why)>& listener) noexcept {
  try {
    if (listener) listener(thrown_);
    thrown_ = Status();
  } catch (...) {
  }
}

void EventLoop::stop() {
  const MutexLock lock(mutex_);
  stopped_ = true;
  wake();
}

bool EventLoop::post(std::function<void()> task) {
  const MutexLock lock(mutex_);
  if (stopped_) return false;
  posted_.push_back(std::move(task));
  wake();
  return true;
}

bool EventLoop::call(std::function<void()> task, std::chrono::milliseconds limit) {
  if (inside()) {
    task();
    return true;
  }
  struct Done {
    Mutex mutex;
    ConditionVariable changed;
    bool ran TUTTI_GUARDED_BY(mutex) = false;
  };
  const auto done = std::make_shared<Done>();
  const auto run_and_tell = [task = std::move(task), done] {
    task();
    const MutexLock lock(done->mutex);
    done->ran = true;
    done->changed.notify_all();
  };
  if (!post(run_and_tell)) return false;
  const Clock::time_point end = Clock::now() + limit;
  MutexLock lock(done->mutex);
  while (!done->ran && done->changed.wait_until(lock, end)) continue;
  return done->ran;
}

void EventLoop::wake() {
  if (!doorbell_.valid()) return;
  const std::uint64_t one = 1;
  // It can only fail when the counter is full, and then the loop is about to wake anyway.
  [[maybe_unused]] const ssize_t written = ::write(doorbell_.get(), &one, sizeof(one));
}

Status EventLoop::watch(int descriptor, std::uint32_t events, std::shared_ptr<EventHandler> handler) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = next_token_;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0)
    return fail(Code::kSystemError, "cannot watch a descriptor: {}", errno_text());
  tokens_[next_token_] = descriptor;
  watched_[descriptor] = Watched{next_token_, std::move(handler)};
  ++next_token_;
  return {};
}

void EventLoop::change(int descriptor, std::uint32_t events) {
  const auto found = watched_.find(descriptor);
  if (found == watched_.end()) return;
  epoll_event event{};
  event.events = events;
  event.data.u64 = found->second.token;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, descriptor, &event);
}

void EventLoop::unwatch(int descriptor) {
  const auto found = watched_.find(descriptor);
  if (found == watched_.end()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
  tokens_.erase(found->second.token);
  watched_.erase(found);
}

EventLoop::TimerId EventLoop::after(std::chrono::nanoseconds delay, std::function<void()> task) {
  const TimerId id = next_timer_++;
  const Clock::time_point due = Clock::now() + delay;
  timers_.emplace(std::pair(due, id), std::move(task));
  due_.emplace(id, due);
  return id;
}

void EventLoop::cancel(TimerId timer) {
  const auto found = due_.find(timer);
  if (found == due_.end()) return;
  timers_.erase({found->second, timer});
  due_.erase(found);
}

int EventLoop::sleep_milliseconds() const {
  if (!thrown_.ok()) return kTellAgainMilliseconds;
  if (timers_.empty()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->first.first - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
}

void EventLoop::dispatch(std::uint64_t token, std::uint32_t events) {
  if (token == kDoorbellToken) {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(doorbell_.get(), &count, sizeof(count));
    return;
  }
  const auto found = tokens_.find(token);
  if (found == tokens_.end()) return;
  const std::shared_ptr<EventHandler> handler = watched_.at(found->second).handler;  // it may unwatch itself
  handler->on_events(events);
}

void EventLoop::run_timers() {
  while (!timers_.empty() && timers_.begin()->first.first <= Clock::now()) {
    const auto task = std::move(timers_.begin()->second);
    due_.erase(timers_.begin()->first.second);
    timers_.erase(timers_.begin());
    run_guarded(task);
  }
}

void EventLoop::run_posted() {
  std::vector<std::function<void()>> tasks;
  {
    const MutexLock lock(mutex_);
    tasks.swap(posted_);
  }
  for (const auto& task : tasks) run_guarded(task);
}

}  // namespace tutti
