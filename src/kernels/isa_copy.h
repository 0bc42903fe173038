// Vector copies, to one or two destinations, through or past the caches.
#pragma once

#include "kernels/reduction.h"

namespace tutti::TUTTI_ISA {

/// A copy is a reduction of one source: same loops, no arithmetic.
using CopyPass = Reduction<Plain<std::uint8_t>, Add>;

inline void copy_twice(void* destination, void* second, const void* source, std::size_t bytes, bool stream) {
  const void* const sources[] = {source};
  CopyPass::run({sources, 1, destination, second, bytes, 1, stream});
}
inline void copy(void* destination, const void* source, std::size_t bytes, bool stream) {
  copy_twice(destination, nullptr, source, bytes, stream);
}

}  // namespace tutti::TUTTI_ISA
