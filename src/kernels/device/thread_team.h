// Divides the threads of a block among several pieces of work. For host and device.
#pragma once

#include <cstdint>

#include "core/units.h"

#if !defined(__CUDA_ARCH__)
#include <bit>
#endif

namespace tutti {

/// The team that a thread is in. Team t takes the pieces t, t + teams, ... All teams have the largest power of two of
/// threads that is enough for one a piece, or else one. So no division is needed, and where a block has 32 threads or
/// more for each piece, all threads of a warp are in one team; but with 5 pieces 3 of 8 teams have none.
struct ThreadTeam {
  std::uint32_t index;  ///< of the team; threads that are left over have one that is no piece
  std::uint32_t teams;
  std::uint32_t thread;   ///< its number in the team
  std::uint32_t threads;  ///< of each team; a power of two

  /// The team of thread `thread` of a block of `threads`, for 1 piece or more.
  TUTTI_HD static ThreadTeam of(std::uint32_t thread, std::uint32_t threads, std::uint32_t pieces) {
    const std::int32_t spare = width(threads) - 1 - width(pieces - 1);
    const std::int32_t bits = spare > 0 ? spare : 0;
    const std::uint32_t size = std::uint32_t{1} << bits;
    return ThreadTeam{thread >> bits, threads >> bits, thread & (size - 1), size};
  }

 private:
  /// How many bits the number has; 0 has none.
  TUTTI_HD static std::int32_t width(std::uint32_t number) {
#if defined(__CUDA_ARCH__)
    return 32 - __clz(static_cast<int>(number));
#else
    return std::bit_width(number);
#endif
  }
};

}  // namespace tutti
