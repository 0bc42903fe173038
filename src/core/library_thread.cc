#include "core/library_thread.h"

#include <pthread.h>
#include <signal.h>

#include <new>
#include <system_error>
#include <utility>

namespace tutti {
namespace {

/// A new thread inherits the mask of the one that starts it.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

thread_local bool started_here = false;

}  // namespace

bool is_library_thread() { return started_here; }

Status start_thread(const char* name, std::function<void()> main, std::thread* thread) {
  const AllSignalsBlocked blocked;
  try {
    *thread = std::thread([name, main = std::move(main)] {
      ::pthread_setname_np(::pthread_self(), name);
      started_here = true;
      main();
    });
  } catch (const std::bad_alloc&) {
    return fail(Code::kSystemError, "cannot start a thread ({}): out of memory", name);
  } catch (const std::system_error& error) {
    return fail(Code::kSystemError, "cannot start a thread ({}): {} (see ulimit -u and ulimit -v)", name,
                errno_text(error.code().value()));
  }
  return {};
}

}  // namespace tutti
