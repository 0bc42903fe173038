// The progress thread: serves all streams of the process, sleeps when there is nothing to do, ends with the last
// stream.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "core/mutex.h"
#include "core/status.h"

namespace tutti {

class OperationLadder;
class RankLinks;
class Stream;

class ProgressThread {
 public:
  /// The process's thread, started when nobody holds it yet. `cores`: where it may run; empty: anywhere.
  static Status acquire(const std::vector<int>& cores, std::shared_ptr<ProgressThread>* thread);
  ~ProgressThread();

  Mutex& mutex() TUTTI_RETURNS(mutex_) { return mutex_; }
  /// The caller is this thread: a callback, which must not wait for a stream.
  bool is_current() const { return std::this_thread::get_id() == thread_.get_id(); }
  /// This is a child's copy: the thread is not here, and its mutex may be held by it.
  void was_forked() { forked_.store(true, std::memory_order_relaxed); }
  bool is_forked() const { return forked_.load(std::memory_order_relaxed); }
  /// After this, notify() needs no memory, and neither does the thread to find what is busy.
  void make_room() TUTTI_REQUIRES(mutex_);
  /// Something was queued on `stream`.
  void notify(Stream* stream) TUTTI_REQUIRES(mutex_);
  /// The stream has no items and will get no more.
  void forget(Stream* stream) TUTTI_REQUIRES(mutex_);

 private:
  ProgressThread() = default;
  void main(const std::vector<int>& cores);
  bool go_round(OperationLadder* ladder, std::vector<Stream*>* active, std::uint64_t* before);
  bool poll_streams(std::vector<Stream*>* active, bool check, std::uint64_t* moved);
  static Status call_back(const std::function<void(Status)>& callback, const Status& so_far);
  bool poll_head(Stream* stream, bool check, std::uint64_t* moved);
  void retire(Stream* stream, Status status);
  void sleep(const std::vector<Stream*>& active);

  Mutex mutex_;
  ConditionVariable work_;
  std::vector<Stream*> busy_ TUTTI_GUARDED_BY(mutex_);     // streams with items
  std::vector<Stream*> room_ TUTTI_GUARDED_BY(mutex_);     // holds room for the thread's copy of busy_
  std::uint64_t queued_ TUTTI_GUARDED_BY(mutex_) = 0;      // grows with every item
  RankLinks* sleeper_ TUTTI_GUARDED_BY(mutex_) = nullptr;  // whose futex the thread sleeps on
  bool stop_ TUTTI_GUARDED_BY(mutex_) = false;
  std::thread thread_;
  std::atomic<bool> forked_{false};  // relaxed: set where there is no other thread
};

}  // namespace tutti
