// Copies of a few rows of bytes by a kernel: for what is too small for a copy engine's start to pay. By all threads of
// a grid; also compiles for the host.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/units.h"
#include "kernels/device/device_pack.h"

namespace tutti {

/// Plain data, a kernel's parameter. Rows of both sides lie that far apart and do not overlap.
struct RowsCopy {
  void* to = nullptr;
  std::size_t to_pitch = 0;
  const void* from = nullptr;
  std::size_t from_pitch = 0;
  std::size_t width = 0;  ///< bytes of a row
  std::size_t rows = 0;
};

/// Bytes up to which a kernel copies. Between device and pinned memory its accesses cross the bus one by one, which
/// hides well for a few packs a thread only. Not measured on a GPU yet.
inline constexpr std::size_t kRowsByKernel = std::size_t{32} << 10;

namespace device {

/// The unit at an address that is a multiple of it.
struct PackUnit {
  static constexpr std::size_t kBytes = sizeof(Pack);
  TUTTI_HD static void copy(void* to, const void* from) { store_pack(to, load_pack(from)); }
};
template <class Storage>
struct ElementUnit {
  static constexpr std::size_t kBytes = sizeof(Storage);
  TUTTI_HD static void copy(void* to, const void* from) {
    store_element<Storage>(to, 0, load_element<Storage>(from, 0));
  }
};

template <class Unit>
TUTTI_HD inline void copy_units(std::size_t thread, std::size_t threads, const RowsCopy& copy) {
  const std::size_t units = copy.width / Unit::kBytes;
  for (std::size_t i = thread; i < units * copy.rows; i += threads) {
    const std::size_t row = i / units;
    const std::size_t at = (i - row * units) * Unit::kBytes;
    Unit::copy(static_cast<unsigned char*>(copy.to) + row * copy.to_pitch + at,
               static_cast<const unsigned char*>(copy.from) + row * copy.from_pitch + at);
  }
}

/// The part of one thread of the grid.
TUTTI_HD inline void copy_rows(std::size_t thread, std::size_t threads, const RowsCopy& copy) {
  const std::size_t all = reinterpret_cast<std::uintptr_t>(copy.to) | reinterpret_cast<std::uintptr_t>(copy.from) |
                          copy.width | (copy.rows > 1 ? copy.to_pitch | copy.from_pitch : 0);
  if (all % PackUnit::kBytes == 0) return copy_units<PackUnit>(thread, threads, copy);
  if (all % sizeof(std::uint32_t) == 0) return copy_units<ElementUnit<std::uint32_t>>(thread, threads, copy);
  copy_units<ElementUnit<std::uint8_t>>(thread, threads, copy);
}

}  // namespace device
}  // namespace tutti
