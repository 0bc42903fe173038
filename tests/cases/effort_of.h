// How much of the cases a run covers.
#pragma once

#include <vector>

#include "cases/ledger.h"
#include "support/depth.h"
#include "support/sanitized.h"

namespace tutti::cases {

/// `usual`, but the least in builds with a sanitizer: for suites that every release run covers whole.
inline Effort effort_of(Effort usual) { return test::kSanitized ? Effort::kLeast : usual; }

/// `usual` where everything is run, else the least: for suites that repeat the cases of others over another algorithm,
/// transport, layout or setting.
inline Effort sample_of(Effort usual) { return test::covers_all() ? effort_of(usual) : Effort::kLeast; }

/// `usual` with up to three ranks. Of more ranks a short run takes a sample, because types and operations do not depend
/// on how many ranks there are: for suites that repeat what threads over shared memory do with any number.
inline Effort effort_with(int ranks, Effort usual) { return ranks <= 3 ? effort_of(usual) : sample_of(usual); }

/// `counts` without those over five in builds with a sanitizer, where eight processes wait for two cores most of the
/// time, and five have passed the same code.
inline std::vector<int> process_counts(std::vector<int> counts) {
  if (test::kSanitized) std::erase_if(counts, [](int count) { return count > 5; });
  return counts;
}

}  // namespace tutti::cases
