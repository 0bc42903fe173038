#include "core/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace tutti {
namespace {

using Table = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // reflected

/// Slicing by eight (Kounavis and Berry, 2005): row k is the checksum of a byte followed by k zero bytes.
constexpr Table make_table() {
  Table table{};
  for (std::uint32_t n = 0; n < 256; ++n) {
    std::uint32_t crc = n;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ kPolynomial : crc >> 1;
    table[0][n] = crc;
  }
  for (std::size_t row = 1; row < table.size(); ++row)
    for (std::size_t n = 0; n < 256; ++n) table[row][n] = (table[row - 1][n] >> 8) ^ table[0][table[row - 1][n] & 0xff];
  return table;
}

constexpr Table kCrcTable = make_table();

std::uint64_t load8(const std::byte* at) {
  std::uint64_t value = 0;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

std::uint32_t by_table(std::uint32_t seed, std::span<const std::byte> bytes) {
  static_assert(std::endian::native == std::endian::little);
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  std::uint32_t crc = ~seed;
  for (; left >= 8; left -= 8, at += 8) {
    const std::uint64_t word = load8(at) ^ crc;
    crc = 0;
    for (std::size_t i = 0; i < 8; ++i) crc ^= kCrcTable[7 - i][word >> (8 * i) & 0xff];
  }
  for (; left > 0; --left, ++at) crc = (crc >> 8) ^ kCrcTable[0][(crc ^ std::to_integer<std::uint32_t>(*at)) & 0xff];
  return ~crc;
}

#if defined(__x86_64__)

using Matrix = std::array<std::uint32_t, 32>;                 // over GF(2), a column each
using Shift = std::array<std::array<std::uint32_t, 256>, 4>;  // a matrix, by bytes of the vector

constexpr std::uint32_t times(const Matrix& matrix, std::uint32_t vector) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; vector != 0; ++i, vector >>= 1)
    if ((vector & 1) != 0) sum ^= matrix[i];
  return sum;
}

/// What `bytes` (a power of two) zero bytes do to a checksum, as a table.
constexpr Shift make_shift(std::size_t bytes) {
  Matrix step{};  // one zero bit
  step[0] = kPolynomial;
  for (std::size_t i = 1; i < 32; ++i) step[i] = std::uint32_t{1} << (i - 1);
  for (std::size_t bits = 1; bits < 8 * bytes; bits *= 2) {
    Matrix square{};
    for (std::size_t i = 0; i < 32; ++i) square[i] = times(step, step[i]);
    step = square;
  }
  Shift shift{};
  for (std::size_t row = 0; row < 4; ++row)
    for (std::uint32_t n = 0; n < 256; ++n) shift[row][n] = times(step, n << (8 * row));
  return shift;
}

constexpr std::size_t kLong = 4096;
constexpr std::size_t kShort = 256;
constexpr Shift kShiftLong = make_shift(kLong);
constexpr Shift kShiftShort = make_shift(kShort);

std::uint32_t shifted(const Shift& shift, std::uint64_t crc) {
  return shift[0][crc & 0xff] ^ shift[1][crc >> 8 & 0xff] ^ shift[2][crc >> 16 & 0xff] ^ shift[3][crc >> 24 & 0xff];
}

/// The instruction answers after three cycles but can start every cycle: three stretches of `size` bytes at once, put
/// together by what zero bytes do to a checksum (the idea is Mark Adler's).
template <std::size_t kSize>
[[gnu::target("sse4.2")]] const std::byte* three_at_once(const Shift& shift, const std::byte* at, std::size_t* left,
                                                         std::uint64_t* crc) {
  std::uint64_t first = *crc;
  while (*left >= 3 * kSize) {
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (std::size_t i = 0; i < kSize; i += 8) {
      first = _mm_crc32_u64(first, load8(at + i));
      second = _mm_crc32_u64(second, load8(at + kSize + i));
      third = _mm_crc32_u64(third, load8(at + 2 * kSize + i));
    }
    first = shifted(shift, shifted(shift, first) ^ second) ^ third;
    at += 3 * kSize;
    *left -= 3 * kSize;
  }
  *crc = first;
  return at;
}

[[gnu::target("sse4.2")]] std::uint32_t by_sse(std::uint32_t seed, std::span<const std::byte> bytes) {
  std::size_t left = bytes.size();
  std::uint64_t crc = ~seed;
  const std::byte* at = three_at_once<kLong>(kShiftLong, bytes.data(), &left, &crc);
  at = three_at_once<kShort>(kShiftShort, at, &left, &crc);
  for (; left >= 8; left -= 8, at += 8) crc = _mm_crc32_u64(crc, load8(at));
  auto result = static_cast<std::uint32_t>(crc);
  for (; left > 0; --left, ++at) result = _mm_crc32_u8(result, std::to_integer<unsigned char>(*at));
  return ~result;
}

bool has_sse() { return __builtin_cpu_supports("sse4.2") != 0; }

#elif defined(__ARM_FEATURE_CRC32)

std::uint32_t by_arm(std::uint32_t seed, std::span<const std::byte> bytes) {
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  std::uint32_t crc = ~seed;
  for (; left >= 8; left -= 8, at += 8) crc = __crc32cd(crc, load8(at));
  for (; left > 0; --left, ++at) crc = __crc32cb(crc, std::to_integer<unsigned char>(*at));
  return ~crc;
}

#endif

bool always() { return true; }

constexpr Crc32cMethod kMethods[] = {
#if defined(__x86_64__)
    {"sse4.2", has_sse, by_sse},
#elif defined(__ARM_FEATURE_CRC32)
    {"arm", always, by_arm},
#endif
    {"table", always, by_table},
};

}  // namespace

std::span<const Crc32cMethod> crc32c_methods() { return kMethods; }

std::uint32_t crc32c(std::uint32_t seed, std::span<const std::byte> bytes) {
  for (const Crc32cMethod& method : kMethods)
    if (method.usable()) return method.compute(seed, bytes);
  return by_table(seed, bytes);
}

}  // namespace tutti
