// How long tests wait for what should come.
#pragma once

#include <cerrno>
#include <chrono>

#include "support/sanitized.h"

namespace tutti::test {

/// No wait of a healthy test takes as long, however loaded the machine is.
inline constexpr std::chrono::seconds kPatience{kSanitized ? 250 : 100};
/// The same for settings and deadlines that a healthy test never meets: what waits for it ends before it does.
inline constexpr double kFarSeconds = kSanitized ? 500 : 200;
/// How many seconds a job with a hostile rank or path may take, all of them spent with waiting for deadlines.
inline constexpr double kSlowest = 8;

/// A system call, again where a signal has interrupted it: poll(2), and calls on sockets with a time limit, are
/// interrupted also when the process was stopped and goes on.
template <class Call>
auto restarted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace tutti::test
