// How long tests wait for what should come.
#pragma once

#include <chrono>

#include "support/sanitized.h"

namespace tutti::test {

/// No wait of a healthy test takes as long, however loaded the machine is.
inline constexpr std::chrono::seconds kPatience{kSanitized ? 250 : 100};
/// The same for settings and deadlines that a healthy test never meets: what waits for it ends before it does.
inline constexpr double kFarSeconds = kSanitized ? 500 : 200;

}  // namespace tutti::test
