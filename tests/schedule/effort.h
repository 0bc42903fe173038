// How much the proofs cover: everything with TEST_DEPTH=all, up to 64 ranks in short runs, and a reduced set under
// sanitizers, which run them tens of times slower.
#pragma once

#include <cstdint>
#include <vector>

#include "support/depth.h"
#include "support/sanitized.h"

namespace tutti {

inline constexpr bool kReduced = test::kSanitized;

/// Every n in 1..256 of a run that covers all. Short: 1..64, and some on both sides of larger powers of two. Reduced:
/// 1..48 and some.
inline std::vector<std::int32_t> proved_ranks() {
  const std::int32_t whole = kReduced ? 48 : test::covers_all() ? 256 : 64;
  std::vector<std::int32_t> ranks;
  for (std::int32_t n = 1; n <= whole; ++n) ranks.push_back(n);
  if (kReduced) ranks.insert(ranks.end(), {63, 64});
  if (whole <= 64) ranks.insert(ranks.end(), {65, 127, 129});
  return ranks;
}

/// Every root up to 32 ranks (reduced: 12), some beyond.
inline std::vector<std::int32_t> proved_roots(std::int32_t n) {
  if (n > (kReduced ? 12 : 32)) return {0, 1, n / 3, n / 2, n - 2, n - 1};
  std::vector<std::int32_t> roots;
  for (std::int32_t root = 0; root < n; ++root) roots.push_back(root);
  return roots;
}

}  // namespace tutti
