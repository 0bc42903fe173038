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
std::atomic<bool> is_lost{false};

enum class Fate { kSent, kRefused, kLost };

bool is_tcp(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0 && address.ss_family != AF_UNIX;
}

Fate step(int socket) {
  using tutti::test::LastStep;
  if (last.load() == 0 || sent.fetch_add(1) + 1 != last.load()) return Fate::kSent;
  switch (what.load()) {
    case LastStep::kNone:
      return Fate::kSent;
    case LastStep::kKill:
      ::kill(::getpid(), SIGKILL);
      break;
    case LastStep::kStop:
      ::kill(::getpid(), SIGSTOP);
      return Fate::kSent;
    case LastStep::kCut:
      ::shutdown(socket, SHUT_RDWR);
      break;
    case LastStep::kLose:
      if (!is_tcp(socket)) return Fate::kSent;
      is_lost = true;
      ::shutdown(socket, SHUT_RDWR);
      return Fate::kLost;
  }
  errno = EPIPE;
  return Fate::kRefused;
}

/// What the caller hears if the message is not sent.
ssize_t told(Fate fate, size_t size) { return fate == Fate::kLost ? static_cast<ssize_t>(size) : -1; }

size_t size_of(const msghdr* message) {
  size_t size = 0;
  for (size_t i = 0; i < message->msg_iovlen; ++i) size += message->msg_iov[i].iov_len;
  return size;
}

}  // namespace

namespace tutti::test {

void set_last_step(LastStep step, long k) {
  sent = 0;
  is_lost = false;
  what = step;
  last = k;
}

long steps() { return sent; }

bool has_lost() { return is_lost; }

}  // namespace tutti::test

extern "C" {

ssize_t send(int socket, const void* data, size_t size, int flags) {
  static const auto next = tutti::test::next_function<ssize_t (*)(int, const void*, size_t, int)>("send");
  const Fate fate = step(socket);
  return fate == Fate::kSent ? next(socket, data, size, flags) : told(fate, size);
}

ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  static const auto next = tutti::test::next_function<ssize_t (*)(int, const msghdr*, int)>("sendmsg");
  const Fate fate = step(socket);
  return fate == Fate::kSent ? next(socket, message, flags) : told(fate, size_of(message));
}

}  // extern "C"
