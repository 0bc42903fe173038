// What a reduction must give, one element at a time, written without any code of the library under test.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "core/types.h"

namespace tutti::oracle {

/// An element's bits, zero-extended.
using Bits = std::uint64_t;

struct Format {
  int exponent_bits;
  int mantissa_bits;
};
inline Format format_of(DataType type) {
  switch (type) {
    case DataType::kFloat8e4m3:
      return {4, 3};
    case DataType::kFloat8e5m2:
      return {5, 2};
    case DataType::kFloat16:
      return {5, 10};
    case DataType::kBfloat16:
      return {8, 7};
    case DataType::kFloat32:
      return {8, 23};
    default:
      return {11, 52};
  }
}

inline Bits mask_of(DataType type) {
  const std::size_t size = size_of(type).value;
  return size == 8 ? ~Bits{0} : (Bits{1} << (8 * size)) - 1;
}
inline bool is_signed(DataType type) {
  return type == DataType::kInt8 || type == DataType::kInt16 || type == DataType::kInt32 || type == DataType::kInt64;
}

inline Bits quiet_nan(DataType type) {
  if (type == DataType::kFloat8e4m3) return 0x7f;
  const Format format = format_of(type);
  return ((Bits{1} << (format.exponent_bits + 1)) - 1) << (format.mantissa_bits - 1);
}

/// The value of a float of any width. Exact.
inline double decode(DataType type, Bits bits) {
  const auto [exponent_bits, mantissa_bits] = format_of(type);
  const bool negative = ((bits >> (exponent_bits + mantissa_bits)) & 1) != 0;
  const int all_ones = (1 << exponent_bits) - 1;
  const int exponent = static_cast<int>(bits >> mantissa_bits) & all_ones;
  const int bias = all_ones / 2;
  const Bits mantissa = bits & ((Bits{1} << mantissa_bits) - 1);
  double value = 0;
  const bool is_e4m3 = type == DataType::kFloat8e4m3;  // its only NaN is all ones, the rest of that exponent is finite
  if (is_e4m3 && (bits & 0x7f) == 0x7f) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == all_ones && !is_e4m3) {
    value = mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<double>(mantissa), 1 - bias - mantissa_bits);
  } else {
    value = std::ldexp(static_cast<double>(mantissa + (Bits{1} << mantissa_bits)), exponent - bias - mantissa_bits);
  }
  return negative ? -value : value;
}

inline bool is_float8(DataType type) { return type == DataType::kFloat8e4m3 || type == DataType::kFloat8e5m2; }

/// The nearest of all values of an 8-bit float, the first that overflows among them; of two as near, the even one.
inline Bits encode_float8(DataType type, double value) {
  const bool is_e4m3 = type == DataType::kFloat8e4m3;
  const Bits overflow = is_e4m3 ? 0x7f : 0x7c;
  const double magnitude = std::min(std::fabs(value), 1e6);  // where differences are still exact
  Bits nearest = 0;
  double distance = magnitude;
  for (Bits bits = 1; bits <= overflow; ++bits) {
    const double candidate = bits < overflow ? decode(type, bits) : (is_e4m3 ? 480.0 : 65536.0);
    const double here = std::fabs(candidate - magnitude);
    if (here < distance || (here == distance && bits % 2 == 0)) {
      nearest = bits;
      distance = here;
    }
  }
  if (is_e4m3 && nearest == overflow) return quiet_nan(type);
  return nearest | (std::signbit(value) ? 0x80 : 0);
}

/// The nearest float of the format, ties to even; a NaN becomes the quiet one.
inline Bits encode(DataType type, double value) {
  if (std::isnan(value)) return quiet_nan(type);
  if (is_float8(type)) return encode_float8(type, value);
  const auto [exponent_bits, mantissa_bits] = format_of(type);
  const Bits sign = std::signbit(value) ? Bits{1} << (exponent_bits + mantissa_bits) : 0;
  const Bits infinity = ((Bits{1} << exponent_bits) - 1) << mantissa_bits;
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | infinity;
  if (magnitude == 0) return sign;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  // In units of the last place; the default rounding mode is to nearest even.
  const auto units = static_cast<Bits>(std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent)));
  // The hidden one, if any, adds to the exponent field; a mantissa that rounds up to a power of two carries into it.
  const Bits bits = (static_cast<Bits>(exponent + bias - 1) << mantissa_bits) + units;
  return sign | std::min(bits, infinity);
}

/// Rounded to the precision in which sums of the type are held. Rounding a sum, product or quotient of floats first to
/// double and then to float gives the correctly rounded float (Figueroa, "When is double rounding innocuous?", 1995).
inline double held(DataType type, double value) {
  return type == DataType::kFloat64 ? value : static_cast<double>(static_cast<float>(value));
}

inline double combine_floats(DataType type, RedOp op, double a, double b) {
  if (op == RedOp::kSum || op == RedOp::kAvg) return held(type, a + b);
  if (op == RedOp::kProd) return held(type, a * b);
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  const bool a_below = a < b || (a == b && std::signbit(a));
  return (op == RedOp::kMin) == a_below ? a : b;
}

inline Bits reduce_floats(DataType type, RedOp op, std::span<const Bits> values, std::uint32_t divisor) {
  double total = decode(type, values[0]);
  for (Bits value : values.subspan(1)) total = combine_floats(type, op, total, decode(type, value));
  if (op == RedOp::kAvg && divisor != 1) total = held(type, total / held(type, divisor));
  return encode(type, total);
}

/// sum(lo, hi) = sum(lo, mid) + sum(mid, hi), mid = lo + the largest power of two below hi - lo; the same of products.
inline double tree_of_floats(DataType type, RedOp op, std::span<const Bits> values) {
  if (values.size() == 1) return decode(type, values[0]);
  std::size_t half = 1;
  while (2 * half < values.size()) half *= 2;
  const double left = tree_of_floats(type, op, values.first(half));
  return combine_floats(type, op, left, tree_of_floats(type, op, values.subspan(half)));
}

inline Bits reduce_floats_by_tree(DataType type, RedOp op, std::span<const Bits> values, std::uint32_t divisor) {
  double total = tree_of_floats(type, op, values);
  if (op == RedOp::kAvg && divisor != 1) total = held(type, total / held(type, divisor));
  return encode(type, total);
}

inline bool below(DataType type, Bits a, Bits b) {
  if (!is_signed(type)) return a < b;
  const int shift = 64 - 8 * static_cast<int>(size_of(type).value);
  return static_cast<std::int64_t>(a << shift) < static_cast<std::int64_t>(b << shift);
}

inline Bits combine_integers(DataType type, RedOp op, Bits a, Bits b) {
  switch (op) {
    case RedOp::kSum:
    case RedOp::kAvg:
      return (a + b) & mask_of(type);
    case RedOp::kProd:
      return (a * b) & mask_of(type);
    case RedOp::kMax:
      return below(type, a, b) ? b : a;
    case RedOp::kMin:
      return below(type, b, a) ? b : a;
    case RedOp::kBitAnd:
      return a & b;
    case RedOp::kBitOr:
      return a | b;
    default:
      return a ^ b;
  }
}

inline Bits divide_integers(DataType type, Bits value, std::uint32_t divisor) {
  const Bits sign = (mask_of(type) >> 1) + 1;
  if (!is_signed(type) || (value & sign) == 0) return value / divisor;
  const Bits magnitude = (~value + 1) & mask_of(type);
  return (~(magnitude / divisor) + 1) & mask_of(type);
}

inline Bits reduce_bools(RedOp op, std::span<const Bits> values) {
  std::size_t trues = 0;
  for (Bits value : values) trues += value != 0 ? 1 : 0;
  if (op == RedOp::kBitXor) return trues % 2;
  if (op == RedOp::kSum || op == RedOp::kMax || op == RedOp::kBitOr) return trues > 0 ? 1 : 0;
  return trues == values.size() ? 1 : 0;
}

/// One element of the result.
inline Bits reduce(DataType type, RedOp op, std::span<const Bits> values, std::uint32_t divisor) {
  if (type == DataType::kBool) return reduce_bools(op, values);
  if (is_float(type)) return reduce_floats(type, op, values, divisor);
  Bits total = values[0];
  for (Bits value : values.subspan(1)) total = combine_integers(type, op, total, value);
  return op == RedOp::kAvg ? divide_integers(type, total, divisor) : total;
}

inline Bits element(DataType type, const unsigned char* bytes, std::size_t index) {
  Bits bits = 0;
  for (std::size_t i = size_of(type).value; i-- > 0;) bits = bits << 8 | bytes[index * size_of(type).value + i];
  return bits;
}
inline void set_element(DataType type, unsigned char* bytes, std::size_t index, Bits bits) {
  for (std::size_t i = 0; i < size_of(type).value; ++i) {
    bytes[index * size_of(type).value + i] = static_cast<unsigned char>(bits >> (8 * i));
  }
}

using Row = std::vector<unsigned char>;

/// The result's bytes for rows of `count` elements each.
inline Row reduce_rows(DataType type, RedOp op, const std::vector<Row>& rows, std::uint32_t divisor) {
  Row result(rows[0].size());
  std::vector<Bits> values(rows.size());
  for (std::size_t i = 0; i < result.size() / size_of(type).value; ++i) {
    for (std::size_t k = 0; k < rows.size(); ++k) values[k] = element(type, rows[k].data(), i);
    set_element(type, result.data(), i, reduce(type, op, values, divisor));
  }
  return result;
}

/// Values where something can go wrong: extremes, zeros of both signs, NaNs with payloads, infinities, subnormals.
inline std::vector<Bits> special_values(DataType type) {
  if (is_float8(type)) {  // all there are
    std::vector<Bits> all(256);
    std::iota(all.begin(), all.end(), Bits{0});
    return all;
  }
  const Bits mask = mask_of(type);
  const Bits top = (mask >> 1) + 1;
  std::vector<Bits> values = {0, 1, 2, 3, mask, mask - 1, top, top - 1, top + 1, mask & 0x8080808080808080u};
  if (!is_float(type)) return values;
  for (double v : {1.0, 0.5, 1.5, 3.0, 65504.0, 65520.0, 1e-7, 6e-8, 2.98e-8, 1e38, 3.4e38, 1e-40, 0.1}) {
    values.push_back(encode(type, v));
    values.push_back(encode(type, -v));
  }
  const Bits infinity = encode(type, std::numeric_limits<double>::infinity());
  for (Bits v : {infinity, infinity - 1, infinity + 1, infinity | top, (infinity | top) + 1, quiet_nan(type)}) {
    values.push_back(v);
  }
  return values;
}

/// Two rows that meet each value of `left` with each of `right`.
inline std::vector<Row> paired_rows(DataType type, const std::vector<Bits>& left, const std::vector<Bits>& right) {
  std::vector<Row> rows(2, Row(left.size() * right.size() * size_of(type).value));
  for (std::size_t i = 0; i < left.size() * right.size(); ++i) {
    set_element(type, rows[0].data(), i, left[i % left.size()]);
    set_element(type, rows[1].data(), i, right[i / left.size()]);
  }
  return rows;
}

/// All values of 8 bits met with each other, all values of 16 bits with at most `others` special ones, else the special
/// ones with each other.
inline std::vector<Row> exhaustive_rows(DataType type, std::size_t others) {
  std::vector<Bits> left = special_values(type);
  std::vector<Bits> right = left;
  const std::size_t size = size_of(type).value;
  if (size <= 2) {
    left.resize(std::size_t{1} << (8 * size));
    std::iota(left.begin(), left.end(), Bits{0});
  }
  if (size == 1) right = left;
  if (size == 2 && right.size() > others) {
    std::shuffle(right.begin(), right.end(), std::mt19937(17));
    right.resize(others);
  }
  return paired_rows(type, left, right);
}

/// Random rows: values of modest size whose sums mean something, any bits at all, and special values.
inline std::vector<Row> random_rows(DataType type, std::size_t rows, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::vector<Bits> special = special_values(type);
  std::vector<Row> result(rows, Row(count * size_of(type).value));
  for (Row& row : result) {
    for (std::size_t i = 0; i < count; ++i) {
      const Bits draw = random();
      Bits value = draw & mask_of(type);
      if (draw % 8 == 0) {
        value = special[random() % special.size()];
      } else if (is_float(type) && draw % 8 < 6) {
        value = encode(type, std::ldexp(static_cast<double>(static_cast<std::int64_t>(random())), -62));
      }
      set_element(type, row.data(), i, value);
    }
  }
  return result;
}

}  // namespace tutti::oracle
