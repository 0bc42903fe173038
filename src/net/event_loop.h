// The event loop of the hub's service thread: it sleeps in epoll until a descriptor is ready, a timer is due or another
// thread posts a task.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/clock.h"
#include "core/mutex.h"
#include "core/status.h"
#include "net/descriptor.h"

namespace tutti {

/// Told by the loop, in its thread, that a descriptor is ready (EPOLLIN and so on).
class EventHandler {
 public:
  virtual ~EventHandler() = default;
  virtual void on_events(std::uint32_t events) = 0;
};

/// Functions marked "any thread" are; all others belong to the thread in run().
class EventLoop {
 public:
  using TimerId = std::uint64_t;

  EventLoop() = default;
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  Status open();
  /// Until stop(). Then drops what is still watched, timed or posted without calling it. An exception in a handler or
  /// task ends that one alone. The loop's thread then calls `thrown` with the reason, and calls it again later if
  /// `thrown` throws, too.
  void run(const std::function<void(const Status& why)>& thrown = {});
  void stop();  ///< any thread
  /// After run(): gives the descriptors back; posting is harmless from then on.
  void close();
  /// Any thread. Tasks run in order. False: the loop has stopped, the task is dropped.
  bool post(std::function<void()> task);
  /// Any thread. Runs the task in the loop's thread and waits for its end, at most `limit`. False: it has not (yet)
  /// run, and may do so when the caller has gone on: it owns all that it uses.
  bool call(std::function<void()> task, std::chrono::milliseconds limit);
  /// Any thread: whether this is the one in run().
  bool inside() const { return thread_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }

  /// Level-triggered. The loop keeps the handler until unwatch().
  Status watch(int descriptor, std::uint32_t events, std::shared_ptr<EventHandler> handler);
  void change(int descriptor, std::uint32_t events);
  /// Before the descriptor is closed: a copy of it in another process would otherwise keep it in the epoll set.
  void unwatch(int descriptor);

  TimerId after(std::chrono::nanoseconds delay, std::function<void()> task);
  void cancel(TimerId timer);

  /// Room to receive into, shared by all handlers of the loop.
  std::span<std::byte> scratch() { return scratch_; }

 private:
  struct Watched {
    std::uint64_t token;
    std::shared_ptr<EventHandler> handler;
  };
  bool turn();
  void run_posted();
  void run_timers();
  template <class Task>
  void run_guarded(const Task& task) noexcept;
  void tell_thrown(const std::function<void(const Status& why)>& listener) noexcept;
  int sleep_milliseconds() const;
  void dispatch(std::uint64_t token, std::uint32_t events);
  void wake() TUTTI_REQUIRES(mutex_);

  Descriptor epoll_;
  Descriptor doorbell_;
  std::atomic<std::thread::id> thread_{};  // relaxed: a thread only needs to recognise itself
  std::unordered_map<int, Watched> watched_;
  std::unordered_map<std::uint64_t, int> tokens_;  // events of a descriptor closed meanwhile find no token
  std::uint64_t next_token_ = 1;
  std::map<std::pair<Clock::time_point, TimerId>, std::function<void()>> timers_;
  std::unordered_map<TimerId, Clock::time_point> due_;  // of each timer: to find it in the map above
  TimerId next_timer_ = 1;
  int turns_without_timers_ = 0;
  Status thrown_;  // what a handler or task threw; ok once the listener was called with it
  std::vector<std::byte> scratch_;

  Mutex mutex_;  // also held while the doorbell is rung or closed
  std::vector<std::function<void()>> posted_ TUTTI_GUARDED_BY(mutex_);
  bool stopped_ TUTTI_GUARDED_BY(mutex_) = false;
};

}  // namespace tutti
