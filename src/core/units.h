// Distinct integer types, so that bytes, elements, chunks, ranks and lanes cannot be mixed up.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#define TUTTI_HD __host__ __device__
#define TUTTI_APART __noinline__  // a function that kernels call, because it is long and rarely runs
#else
#define TUTTI_HD
#define TUTTI_APART
#endif
#if defined(__CUDA_ARCH__)
#define TUTTI_NO_UNROLL _Pragma("unroll 1")  // the compiler for the host knows no such pragma
#else
#define TUTTI_NO_UNROLL
#endif

namespace tutti {

/// An integer with a meaning. Arithmetic stays within one meaning; `value` leaves it on purpose.
template <class Tag, class Int>
struct Unit {
  Int value{};
  constexpr Unit() = default;
  TUTTI_HD constexpr explicit Unit(Int v) : value(v) {}
  constexpr auto operator<=>(const Unit&) const = default;
  TUTTI_HD constexpr Unit operator+(Unit other) const { return Unit(static_cast<Int>(value + other.value)); }
  TUTTI_HD constexpr Unit operator-(Unit other) const { return Unit(static_cast<Int>(value - other.value)); }
  TUTTI_HD constexpr Unit operator*(Int factor) const { return Unit(static_cast<Int>(value * factor)); }
  TUTTI_HD constexpr Unit& operator+=(Unit other) {
    value = static_cast<Int>(value + other.value);
    return *this;
  }
  TUTTI_HD constexpr Unit& operator-=(Unit other) {
    value = static_cast<Int>(value - other.value);
    return *this;
  }
  TUTTI_HD constexpr Unit& operator++() {
    ++value;
    return *this;
  }
};

using Bytes = Unit<struct BytesTag, std::size_t>;
using Elems = Unit<struct ElemsTag, std::size_t>;
using Rank = Unit<struct RankTag, std::int32_t>;
using ChunkId = Unit<struct ChunkTag, std::uint32_t>;
using Lane = Unit<struct LaneTag, std::uint16_t>;

/// No rank: a step without a peer, a cause without a culprit, a rank that waits for nobody.
inline constexpr Rank kNoRank{-1};

/// A rank as another process has written it, in memory that both map or in a message: any number at all. It becomes a
/// Rank only by a look at how many there are.
class ClaimedRank {
 public:
  constexpr ClaimedRank() = default;
  constexpr explicit ClaimedRank(std::int32_t number) : number_(number) {}
  constexpr ClaimedRank(Rank rank) : number_(rank.value) {}  // NOLINT(google-explicit-constructor): of one's own
  constexpr bool operator==(const ClaimedRank&) const = default;
  /// kNoRank if it is none of so many ranks.
  constexpr Rank among(int ranks) const { return number_ >= 0 && number_ < ranks ? Rank{number_} : kNoRank; }
  constexpr std::int32_t number() const { return number_; }

 private:
  std::int32_t number_ = kNoRank.value;
};

TUTTI_HD constexpr std::size_t div_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }
TUTTI_HD constexpr std::size_t round_up(std::size_t a, std::size_t b) { return div_up(a, b) * b; }

/// Size of a cache line; what one rank writes and another reads is aligned to it.
inline constexpr std::size_t kCacheLine = 64;

}  // namespace tutti
