// Sixteen bytes as one access moves them, and single elements at any address.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/units.h"

#if defined(__CUDA_ARCH__)
#define TUTTI_UNROLL _Pragma("unroll")
#define TUTTI_NO_UNROLL _Pragma("unroll 1")
#else
#define TUTTI_UNROLL
#define TUTTI_NO_UNROLL
#endif

namespace tutti::device {

struct alignas(16) Pack {
  std::uint32_t words[4];
};
template <class Storage>
inline constexpr int kElements = sizeof(Pack) / sizeof(Storage);

/// Tells the compiler that an address is of global memory, so that it need not look where each access goes.
TUTTI_HD inline void assume_global([[maybe_unused]] const void* address) {
#if defined(__CUDA_ARCH__)
  __builtin_assume(__isGlobal(address));
#endif
}

/// The pack at an aligned address. Weak accesses: what another block or GPU wrote before an acquire is seen. On a
/// device in assembly, because the compiler takes a pack apart, stores most of all, into its values' accesses.
TUTTI_HD inline Pack load_pack(const void* address) {
  Pack pack;
#if defined(__CUDA_ARCH__)
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(pack.words[0]), "=r"(pack.words[1]), "=r"(pack.words[2]), "=r"(pack.words[3])
               : "l"(__cvta_generic_to_global(address))
               : "memory");
#else
  __builtin_memcpy(&pack, address, sizeof(Pack));
#endif
  return pack;
}
TUTTI_HD inline void store_pack(void* address, const Pack& pack) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(__cvta_generic_to_global(address)), "r"(pack.words[0]), "r"(pack.words[1]), "r"(pack.words[2]),
                 "r"(pack.words[3])
               : "memory");
#else
  __builtin_memcpy(address, &pack, sizeof(Pack));
#endif
}

/// Sixteen bytes from any address on, read as the one or two aligned packs that hold them.
TUTTI_HD inline Pack load_pack_anywhere(const void* address) {
  const auto* const bytes = static_cast<const unsigned char*>(address);
  const auto beyond = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(bytes) % sizeof(Pack));
  const Pack low = load_pack(bytes - beyond);
  if (beyond == 0) return low;
  const Pack high = load_pack(bytes - beyond + sizeof(Pack));
  // Chosen in two halvings: an array in registers has no index that is known only when running.
  std::uint32_t pair[6], words[5];
  TUTTI_UNROLL
  for (int i = 0; i < 6; ++i) {
    const std::uint32_t near = i < 4 ? low.words[i & 3] : high.words[i & 3];
    const std::uint32_t far = i < 2 ? low.words[(i + 2) & 3] : high.words[(i + 2) & 3];
    pair[i] = (beyond & 8) != 0 ? far : near;
  }
  TUTTI_UNROLL
  for (int i = 0; i < 5; ++i) words[i] = (beyond & 4) != 0 ? pair[i + 1] : pair[i];
  const unsigned bits = beyond % 4 * 8;
  Pack pack;
  TUTTI_UNROLL
  for (int i = 0; i < 4; ++i) {
    pack.words[i] = static_cast<std::uint32_t>((std::uint64_t{words[i + 1]} << 32 | words[i]) >> bits);
  }
  return pack;
}

/// An element at any address, byte by byte where it is not aligned.
template <class Storage>
TUTTI_HD inline Storage load_element(const void* base, std::size_t at) {
  const auto* address = static_cast<const unsigned char*>(base) + at * sizeof(Storage);
  assume_global(address);
  Storage value;
  if (reinterpret_cast<std::uintptr_t>(address) % sizeof(Storage) == 0) {
    __builtin_memcpy(&value, __builtin_assume_aligned(address, sizeof(Storage)), sizeof(Storage));
  } else {
    __builtin_memcpy(&value, address, sizeof(Storage));
  }
  return value;
}
template <class Storage>
TUTTI_HD inline void store_element(void* base, std::size_t at, Storage value) {
  auto* address = static_cast<unsigned char*>(base) + at * sizeof(Storage);
  assume_global(address);
  if (reinterpret_cast<std::uintptr_t>(address) % sizeof(Storage) == 0) {
    __builtin_memcpy(__builtin_assume_aligned(address, sizeof(Storage)), &value, sizeof(Storage));
  } else {
    __builtin_memcpy(address, &value, sizeof(Storage));
  }
}

}  // namespace tutti::device
