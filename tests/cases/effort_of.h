// How much of the cases a run covers.
#pragma once

#include "cases/ledger.h"
#include "support/depth.h"
#include "support/sanitized.h"

namespace tutti::cases {

/// `usual`, but the least in builds with a sanitizer: for suites that every release run covers whole.
inline Effort effort_of(Effort usual) { return test::kSanitized ? Effort::kLeast : usual; }

/// `usual` where everything is run, else the least: for suites that repeat the cases of others over another algorithm,
/// transport, layout or setting.
inline Effort sample_of(Effort usual) { return test::covers_all() ? effort_of(usual) : Effort::kLeast; }

}  // namespace tutti::cases
