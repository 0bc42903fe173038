// The progress thread: serves all streams of the process, sleeps when there is nothing to do, ends with the last
// stream.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/stream.h"

namespace tutti {

class ProgressThread {
 public:
  /// The process's thread, started when nobody holds it yet. `cores`: where it may run; empty: anywhere.
  static std::shared_ptr<ProgressThread> acquire(const std::vector<int>& cores);
  ~ProgressThread();

  std::mutex& mutex() { return mutex_; }
  /// The caller is this thread: a callback, which must not wait for a stream.
  bool is_current() const { return std::this_thread::get_id() == thread_.get_id(); }
  /// Something was queued on `stream`. The caller holds the mutex.
  void notify(Stream* stream);
  /// The stream has no items and will get no more. The caller holds the mutex.
  void forget(Stream* stream);

 private:
  ProgressThread() = default;
  void main(const std::vector<int>& cores);
  bool poll_streams(std::vector<Stream*>* active, bool look, std::uint64_t* moved);
  bool poll_head(Stream* stream, bool look, std::uint64_t* moved);
  void retire(Stream* stream, const Status& status);
  void sleep(const std::vector<Stream*>& active);

  std::mutex mutex_;
  std::condition_variable work_;
  std::vector<Stream*> busy_;    // streams with items; guarded by mutex_
  std::uint64_t queued_ = 0;     // grows with every item; guarded by mutex_
  Executor* sleeper_ = nullptr;  // whose futex the thread sleeps on; guarded by mutex_
  bool stop_ = false;            // guarded by mutex_
  std::thread thread_;
};

}  // namespace tutti
