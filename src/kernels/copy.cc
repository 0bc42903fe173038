#include "kernels/copy.h"

#include <algorithm>
#include <cstring>

#include "kernels/isa_table.h"
#include "kernels/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TUTTI_SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TUTTI_SANITIZED 1
#endif

namespace tutti {
namespace {

// Measured with slot_copy_bench and kernels_bench; docs/design/kernels.md.
constexpr std::size_t kStringFrom = 1024;
constexpr std::size_t kStreamFrom = 4096;
/// Small enough that the source is still in the first cache when it is copied the second time.
constexpr std::size_t kTwicePart = 16 * 1024;

#if defined(__x86_64__) && !defined(TUTTI_SANITIZED)
bool probe_fast_strings() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & (1u << 9)) != 0;  // ERMS
}
const bool kFastStrings = probe_fast_strings();

/// Whether is_slow_for_strings() is about this processor.
bool probe_slow_pairs() {
  constexpr unsigned kZen3AndZen4 = 0x19;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0, &a, &b, &c, &d) == 0) return false;
  const bool amd = b == signature_AMD_ebx && c == signature_AMD_ecx && d == signature_AMD_edx;
  if (!amd || __get_cpuid(1, &a, &b, &c, &d) == 0) return false;
  return (a >> 8 & 0xf) + (a >> 20 & 0xff) == kZen3AndZen4;
}
const bool kSlowPairs = probe_slow_pairs();
#endif

void copy_plain(void* destination, const void* source, std::size_t bytes) {
  if (bytes < kStringFrom) {
    std::memcpy(destination, source, bytes);
  } else {
    copy_by_string(destination, source, bytes);
  }
}

}  // namespace

void copy_by_string(void* destination, const void* source, std::size_t bytes) {
#if defined(__x86_64__) && !defined(TUTTI_SANITIZED)  // sanitizers see memcpy, not assembly
  const auto address = [](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); };
  if (kSlowPairs && is_slow_for_strings(address(destination), address(source)))
    return copy_by_vector(destination, source, bytes);
  if (kFastStrings) {
    // The stores may become visible in any order among themselves, but before any later store: a flag is safe.
    asm volatile("rep movsb" : "+D"(destination), "+S"(source), "+c"(bytes) : : "memory");
    return;
  }
#endif
  std::memcpy(destination, source, bytes);
}

void copy_by_vector(void* destination, const void* source, std::size_t bytes) {
  isa_table().copy(destination, source, bytes, false);
}

void copy_by_stream(void* destination, const void* source, std::size_t bytes) {
  isa_table().copy(destination, source, bytes, true);
}

void copy_bytes(void* destination, const void* source, Bytes bytes, bool stream) {
  if (destination == source) return;
  if (stream && bytes.value >= kStreamFrom) return copy_by_stream(destination, source, bytes.value);
  copy_plain(destination, source, bytes.value);
}

void copy_bytes_twice(void* destination, void* second, const void* source, Bytes bytes, bool stream,
                      bool stream_second) {
  for (std::size_t at = 0; at < bytes.value; at += kTwicePart) {
    const Bytes part{std::min(kTwicePart, bytes.value - at)};
    const auto* from = static_cast<const unsigned char*>(source) + at;
    copy_bytes(static_cast<unsigned char*>(destination) + at, from, part, stream);
    copy_bytes(static_cast<unsigned char*>(second) + at, from, part, stream_second);
  }
}

}  // namespace tutti
