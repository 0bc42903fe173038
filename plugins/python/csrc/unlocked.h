// The interpreter's lock, given back while the library works.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

namespace tutti_python {

/// Lets other threads of Python run for as long as it lives.
class Unlocked {
 public:
  Unlocked() : thread_(PyEval_SaveThread()) {}
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  /// When the interpreter ends, Python (before 3.14) unwinds the other threads that want the lock, which destructors
  /// and C++ frames without exceptions do not survive. Such a thread stops here instead, until the process ends.
  ~Unlocked() {
    try {
      PyEval_RestoreThread(thread_);
    } catch (...) {
      while (true) pause();
    }
  }

 private:
  PyThreadState* thread_;
};

}  // namespace tutti_python
