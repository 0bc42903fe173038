// The memory that a process has from its heap.
#pragma once

#include <malloc.h>

namespace tutti::bench {

inline double heap_bytes() {
  const struct mallinfo2 heap = ::mallinfo2();
  return static_cast<double>(heap.uordblks + heap.hblkhd);
}

}  // namespace tutti::bench
