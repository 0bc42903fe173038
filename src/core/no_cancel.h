// Threads of the application that are cancelled while they are in the library.
#pragma once

#include <pthread.h>

namespace tutti {

/// As long as it lives, a pthread_cancel() of this thread waits: a call that is left in its middle would leave its
/// communicator half way. The thread ends at its first cancellation point after the call. Two calls of the C library
/// are some nanoseconds: code that makes no system call that is a cancellation point (a futex by syscall() is none) can
/// do without.
class NoCancel {
 public:
  explicit NoCancel(bool needed = true) : needed_(needed) {
    if (needed_) ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_);
  }
  ~NoCancel() {
    if (needed_) ::pthread_setcancelstate(before_, nullptr);
  }
  NoCancel(const NoCancel&) = delete;
  NoCancel& operator=(const NoCancel&) = delete;

 private:
  const bool needed_;
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace tutti
