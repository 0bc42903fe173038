// The ways of copying that copy_bytes chooses from; for the kernels and their benchmarks.
#pragma once

#include <cstddef>

namespace tutti {

/// The processor's string copy (`rep movsb`): where the destination's lines are in another core's cache it need not
/// fetch them before it overwrites them, as plain stores do. memcpy where the processor has no fast one.
void copy_by_string(void* destination, const void* source, std::size_t bytes);

/// Vector stores past the caches, and the fence after them.
void copy_by_stream(void* destination, const void* source, std::size_t bytes);

}  // namespace tutti
