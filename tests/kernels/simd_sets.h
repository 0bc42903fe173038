// The instruction sets to test: those that this processor has.
#pragma once

#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace tutti {

/// Chooses an instruction set for the rest of a scope.
class SimdScope {
 public:
  explicit SimdScope(const std::string& name) { select_simd(name); }
  ~SimdScope() { select_simd("auto"); }
  SimdScope(const SimdScope&) = delete;
  SimdScope& operator=(const SimdScope&) = delete;
};

inline std::vector<std::string> simd_sets() {
  std::vector<std::string> sets;
  for (const char* name : {"baseline", "avx2", "avx512"}) {
    const SimdScope scope(name);
    if (simd_name() == std::string(name)) sets.push_back(name);
  }
  return sets;
}

}  // namespace tutti
