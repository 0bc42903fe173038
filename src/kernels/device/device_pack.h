// Sixteen bytes as one access moves them, and single elements at any address.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/units.h"

#if defined(__CUDA_ARCH__)
#define TUTTI_UNROLL _Pragma("unroll")
#else
#define TUTTI_UNROLL
#endif

namespace tutti::device {

struct alignas(16) Pack {
  std::uint32_t words[4];
};
template <class Storage>
inline constexpr int kElements = sizeof(Pack) / sizeof(Storage);

/// So many neighbouring threads take one pack each, then the next run of packs: constant distances between a thread's
/// packs cost no registers. On the host a thread is alone.
#if defined(__CUDA_ARCH__)
inline constexpr unsigned kSide = 32;
#else
inline constexpr unsigned kSide = 1;
#endif

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

/// Part of a pack in one access at an address that is aligned for it.
template <class Part>
TUTTI_HD inline void store_part(unsigned char* address, Part part) {
  assume_global(address);
  __builtin_memcpy(__builtin_assume_aligned(address, sizeof(Part)), &part, sizeof(Part));
}

/// Sixteen bytes to any address on, in the largest parts that are aligned there. The packs before and after these may
/// be stored by other threads.
TUTTI_HD inline void store_pack_anywhere(void* address, const Pack& pack) {
  auto* const bytes = static_cast<unsigned char*>(address);
  const auto beyond = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(bytes) % sizeof(Pack));
  if (beyond == 0) return store_pack(address, pack);
  const auto& words = pack.words;
  if (beyond % 8 == 0) {
    store_part(bytes, std::uint64_t{words[1]} << 32 | words[0]);
    store_part(bytes + 8, std::uint64_t{words[3]} << 32 | words[2]);
  } else if (beyond % 4 == 0) {
    TUTTI_UNROLL
    for (int i = 0; i < 4; ++i) store_part(bytes + 4 * i, words[i]);
  } else {  // up to the first aligned word, three whole words, and the rest
    const unsigned before = 4 - beyond % 4, bits = 8 * before;
    if (before != 2) store_part(bytes, static_cast<std::uint8_t>(words[0]));
    if (before != 1) store_part(bytes + (before & 1), static_cast<std::uint16_t>(words[0] >> (before == 3 ? 8 : 0)));
    TUTTI_UNROLL
    for (int i = 0; i < 3; ++i) {
      store_part(bytes + before + 4 * i,
                 static_cast<std::uint32_t>((std::uint64_t{words[i + 1]} << 32 | words[i]) >> bits));
    }
    const std::uint32_t rest = words[3] >> bits;  // 4 - before bytes
    unsigned char* const end = bytes + before + 12;
    if (before != 3) store_part(end, static_cast<std::uint16_t>(rest));
    if (before != 2) store_part(end + (before == 3 ? 0 : 2), static_cast<std::uint8_t>(rest >> (before == 3 ? 0 : 16)));
  }
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
