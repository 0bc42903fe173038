// How much of the cases a build can run.
#pragma once

#include "cases/ledger.h"
#include "support/sanitized.h"

namespace tutti::cases {

/// `usual`, but the least in builds with a sanitizer.
constexpr Effort effort_of(Effort usual) { return test::kSanitized ? Effort::kLeast : usual; }

}  // namespace tutti::cases
