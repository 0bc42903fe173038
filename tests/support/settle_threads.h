// What a process of a test does before it ends, so that the thread sanitizer finds nothing left.
#pragma once

#include <chrono>

#include "comm/membership/hub.h"
#include "support/sanitized.h"

namespace tutti::test {

/// A service thread that has ended, but that nobody has joined yet, is a leak to the thread sanitizer. That of an id
/// whose join has failed ends after three seconds.
inline void settle_threads() {
  if (kThreadSanitized) (void)wait_for_no_hub(std::chrono::seconds(10));
}

}  // namespace tutti::test
