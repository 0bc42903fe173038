// The ways of copying that copy_bytes chooses from; for the kernels and their benchmarks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti {

/// The processor's string copy (`rep movsb`): where the destination's lines are in another core's cache it need not
/// fetch them before it overwrites them, as plain stores do. memcpy where the processor has no fast one, and
/// copy_by_vector() where it is slow for this pair of addresses.
void copy_by_string(void* destination, const void* source, std::size_t bytes);

/// Whether the string copy of Zen 3 and Zen 4 is slow for this pair of addresses: the destination's place in its page
/// is up to 63 bytes after the source's. It then takes some 20 times as long (docs/design/kernels.md, "Copies"; glibc's
/// bug 30994).
constexpr bool is_slow_for_strings(std::uintptr_t destination, std::uintptr_t source) {
  constexpr std::uintptr_t kPage = 4096, kNear = 64;
  const std::uintptr_t after = (destination - source) % kPage;
  return after != 0 && after < kNear;
}

/// Vector stores through the caches.
void copy_by_vector(void* destination, const void* source, std::size_t bytes);

/// Vector stores past the caches, and the fence after them.
void copy_by_stream(void* destination, const void* source, std::size_t bytes);

}  // namespace tutti
