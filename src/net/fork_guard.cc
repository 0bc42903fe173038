#include "net/fork_guard.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "core/mutex.h"

namespace tutti {
namespace {

struct Guard {
  Mutex mutex;
  std::vector<int> descriptors TUTTI_GUARDED_BY(mutex);
  void (*lock)() = nullptr;
  void (*unlock)() = nullptr;
  void (*in_child)() = nullptr;
};

// Never destroyed: the service thread and fork handlers may use it while the process ends.
Guard& guard() {
  static Guard* const instance = new Guard;
  return *instance;
}

void before_fork() TUTTI_ACQUIRE(guard().mutex) {
  guard().lock();
  guard().mutex.lock();
}

void after_fork_in_parent() TUTTI_RELEASE(guard().mutex) {
  guard().mutex.unlock();
  guard().unlock();
}

void after_fork_in_child() TUTTI_RELEASE(guard().mutex) {
  for (const int descriptor : guard().descriptors) ::close(descriptor);
  guard().descriptors.clear();
  guard().mutex.unlock();
  guard().in_child();
  guard().unlock();
}

}  // namespace

void guard_descriptor(int descriptor) {
  const MutexLock lock(guard().mutex);
  guard().descriptors.push_back(descriptor);
}

void unguard_descriptor(int descriptor) {
  const MutexLock lock(guard().mutex);
  std::erase(guard().descriptors, descriptor);
}

Status install_fork_handlers(void (*lock)(), void (*unlock)(), void (*in_child)()) {
  guard().lock = lock;
  guard().unlock = unlock;
  guard().in_child = in_child;
  if (const int error = ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); error != 0)
    return fail(Code::kSystemError, "cannot install fork handlers: {}", errno_text(error));
  return {};
}

}  // namespace tutti
