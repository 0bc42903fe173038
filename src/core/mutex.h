// std::mutex and what belongs to it, known to Clang's thread safety analysis: a field says which mutex guards it, and
// clang -Wthread-safety refuses code that touches it without. Other compilers see the standard library's classes and
// no attributes. After "Thread Safety Analysis" in Clang's documentation.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define TUTTI_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define TUTTI_THREAD_SAFETY(attribute)
#endif

/// A field or static variable that is used only with this mutex held.
#define TUTTI_GUARDED_BY(mutex) TUTTI_THREAD_SAFETY(guarded_by(mutex))
/// A pointer to what is used only with this mutex held.
#define TUTTI_POINTEE_GUARDED_BY(mutex) TUTTI_THREAD_SAFETY(pt_guarded_by(mutex))
/// A function whose callers hold this mutex.
#define TUTTI_REQUIRES(mutex) TUTTI_THREAD_SAFETY(requires_capability(mutex))
/// A function whose callers must not hold this mutex.
#define TUTTI_EXCLUDES(mutex) TUTTI_THREAD_SAFETY(locks_excluded(mutex))
/// A function that locks this mutex and leaves it locked.
#define TUTTI_ACQUIRE(...) TUTTI_THREAD_SAFETY(acquire_capability(__VA_ARGS__))
/// A function that unlocks this mutex.
#define TUTTI_RELEASE(...) TUTTI_THREAD_SAFETY(release_capability(__VA_ARGS__))
/// A function after whose call this mutex is known to be held.
#define TUTTI_ASSERTS(mutex) TUTTI_THREAD_SAFETY(assert_capability(mutex))
/// A function that returns this mutex.
#define TUTTI_RETURNS(mutex) TUTTI_THREAD_SAFETY(lock_returned(mutex))

namespace tutti {

/// Locked by a MutexLock wherever a scope does.
class TUTTI_THREAD_SAFETY(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() TUTTI_ACQUIRE() { mutex_.lock(); }
  void unlock() TUTTI_RELEASE() { mutex_.unlock(); }
  bool try_lock() TUTTI_THREAD_SAFETY(try_acquire_capability(true)) { return mutex_.try_lock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

/// Holds a mutex for a scope, except between unlock() and lock().
class TUTTI_THREAD_SAFETY(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) TUTTI_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  MutexLock(Mutex& mutex, std::adopt_lock_t adopt) TUTTI_REQUIRES(mutex) : lock_(mutex.mutex_, adopt) {}
  ~MutexLock() TUTTI_RELEASE() {}  // NOLINT(modernize-use-equals-default): an attribute needs a body
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() TUTTI_ACQUIRE() { lock_.lock(); }
  void unlock() TUTTI_RELEASE() { lock_.unlock(); }

 private:
  friend class ConditionVariable;
  std::unique_lock<std::mutex> lock_;
};

/// Takes no predicates: the analysis does not know that they run with the mutex held, so callers wait in loops.
class ConditionVariable {
 public:
  void wait(MutexLock& lock) { changed_.wait(lock.lock_); }
  /// False: the time has come.
  bool wait_until(MutexLock& lock, std::chrono::steady_clock::time_point end) {
    return changed_.wait_until(lock.lock_, end) == std::cv_status::no_timeout;
  }
  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

}  // namespace tutti
