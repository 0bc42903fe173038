// The progress thread serves all streams of the process, sleeps while there is nothing to do, and ends with the last
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
  /// Gives the process's thread, and starts it if nobody holds it yet. It may run on `cores`, or anywhere if that is
  /// empty.
  static Status acquire(const std::vector<int>& cores, std::shared_ptr<ProgressThread>* thread);
  ~ProgressThread();

  Mutex& mutex() TUTTI_RETURNS(mutex_) { return mutex_; }
  /// Whether the caller is this thread, in a callback, which must not wait for a stream.
  bool is_current() const { return std::this_thread::get_id() == thread_.get_id(); }
  /// Called in a forked child, where the thread is not there and the copy of its mutex may be locked.
  void was_forked() { forked_.store(true, std::memory_order_relaxed); }
  bool is_forked() const { return forked_.load(std::memory_order_relaxed); }
  /// After this, neither notify() nor the thread, which copies the list of busy streams, needs memory.
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
  void sleep(const std::vector<Stream*>& active, const OperationLadder& ladder);

  Mutex mutex_;
  ConditionVariable work_;
  std::vector<Stream*> busy_ TUTTI_GUARDED_BY(mutex_);     // streams with items
  std::vector<Stream*> room_ TUTTI_GUARDED_BY(mutex_);     // room for the thread's copy of busy_
  std::uint64_t queued_ TUTTI_GUARDED_BY(mutex_) = 0;      // grows with every item
  RankLinks* sleeper_ TUTTI_GUARDED_BY(mutex_) = nullptr;  // the links on whose futex the thread sleeps
  bool stop_ TUTTI_GUARDED_BY(mutex_) = false;
  std::thread thread_;
  std::atomic<bool> forked_{false};  // relaxed: it is set where there is no other thread
};

}  // namespace tutti
