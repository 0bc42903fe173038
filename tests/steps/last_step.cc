#include "steps/last_step.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "support/next_function.h"

namespace {

std::atomic<tutti::test::LastStep> what{tutti::test::LastStep::kNone};
std::atomic<long> last{0};
std::atomic<long> sent{0};

/// False: this message is not sent.
bool step(int socket) {
  using tutti::test::LastStep;
  if (last.load() == 0 || sent.fetch_add(1) + 1 != last.load()) return true;
  switch (what.load()) {
    case LastStep::kNone:
      return true;
    case LastStep::kKill:
      ::kill(::getpid(), SIGKILL);
      break;
    case LastStep::kStop:
      ::kill(::getpid(), SIGSTOP);
      return true;
    case LastStep::kCut:
      ::shutdown(socket, SHUT_RDWR);
      break;
  }
  errno = EPIPE;
  return false;
}

}  // namespace

namespace tutti::test {

void set_last_step(LastStep step, long k) {
  sent = 0;
  what = step;
  last = k;
}

long steps() { return sent; }

}  // namespace tutti::test

extern "C" {

ssize_t send(int socket, const void* data, size_t size, int flags) {
  static const auto next = tutti::test::next_function<ssize_t (*)(int, const void*, size_t, int)>("send");
  return step(socket) ? next(socket, data, size, flags) : -1;
}

ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  static const auto next = tutti::test::next_function<ssize_t (*)(int, const msghdr*, int)>("sendmsg");
  return step(socket) ? next(socket, message, flags) : -1;
}

}  // extern "C"
