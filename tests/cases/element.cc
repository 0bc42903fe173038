#include "cases/element.h"

#include <cstring>
#include <type_traits>

namespace tutti::cases {
namespace {

std::uint64_t scrambled(std::uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;  // the finaliser of MurmurHash3
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}
std::uint64_t random_bits(int rank, std::size_t i) {
  return scrambled(0x1234567ULL * static_cast<std::uint64_t>(rank + 1) + (static_cast<std::uint64_t>(i) << 24));
}

/// 16-bit floats hold only values here that are exact, so the conversion just moves bits of the float32.
struct Half {
  std::uint16_t bits;
};
struct Brain {
  std::uint16_t bits;
};
struct Truth {
  std::uint8_t bits;
};

std::uint32_t bits_of(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

void store(double value, float* out) { *out = static_cast<float>(value); }
void store(double value, double* out) { *out = value; }
void store(double value, Brain* out) {
  out->bits = static_cast<std::uint16_t>(bits_of(static_cast<float>(value)) >> 16);
}
void store(double value, Half* out) {
  const std::uint32_t bits = bits_of(static_cast<float>(value));
  const std::uint32_t sign = bits >> 16 & 0x8000;
  if (value == 0) {
    out->bits = static_cast<std::uint16_t>(sign);
    return;
  }
  const std::uint32_t exponent = (bits >> 23 & 0xff) - 127 + 15;
  out->bits = static_cast<std::uint16_t>(sign | exponent << 10 | (bits >> 13 & 0x3ff));
}

/// Small integers: any order of additions and multiplications of up to 8 of them is exact in bfloat16.
double float_value(tuttiRedOp_t op, int rank, int ranks, std::size_t i) {
  const auto small = static_cast<double>(random_bits(rank, i) % 9) - 4;
  if (op == tuttiProd) return random_bits(rank, i) % 3 == 0 ? -1 : random_bits(rank, i) % 2 == 0 ? 2 : 1;
  if (op != tuttiAvg) return small;
  const auto common = static_cast<double>(random_bits(77, i) % 5) - 2;
  const bool outlier = i % static_cast<std::size_t>(ranks) == static_cast<std::size_t>(rank);
  return common + (outlier ? ranks * (static_cast<double>(random_bits(78, i) % 3) - 1) : 0);
}

double folded(double a, double b, tuttiRedOp_t op) {
  switch (op) {
    case tuttiProd:
      return a * b;
    case tuttiMax:
      return a > b ? a : b;
    case tuttiMin:
      return a < b ? a : b;
    default:
      return a + b;
  }
}

template <class T>
T float_result(tuttiRedOp_t op, int ranks, std::size_t i) {
  double result = float_value(op, 0, ranks, i);
  for (int rank = 1; rank < ranks; ++rank) result = folded(result, float_value(op, rank, ranks, i), op);
  if (op == tuttiAvg) result /= ranks;
  T stored{};
  store(result, &stored);
  return stored;
}

template <class T>
T integer_value(tuttiRedOp_t op, int rank, std::size_t i) {
  const std::uint64_t bits = random_bits(rank, i);
  if (op == tuttiBitAnd) return static_cast<T>(bits | random_bits(rank + 1000, i));
  if (op == tuttiBitOr) return static_cast<T>(bits & random_bits(rank + 1000, i));
  return static_cast<T>(op == tuttiProd ? bits | 1 : bits);
}

template <class T>
T folded_integer(T a, T b, tuttiRedOp_t op) {
  using Wide = std::uint64_t;
  switch (op) {
    case tuttiProd:
      return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
    case tuttiMax:
      return a > b ? a : b;
    case tuttiMin:
      return a < b ? a : b;
    case tuttiBitAnd:
      return static_cast<T>(a & b);
    case tuttiBitOr:
      return static_cast<T>(a | b);
    case tuttiBitXor:
      return static_cast<T>(a ^ b);
    default:
      return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
  }
}

template <class T>
T integer_result(tuttiRedOp_t op, int ranks, std::size_t i) {
  T result = integer_value<T>(op, 0, i);
  for (int rank = 1; rank < ranks; ++rank) result = folded_integer(result, integer_value<T>(op, rank, i), op);
  if (op != tuttiAvg) return result;
  if constexpr (std::is_signed_v<T>) return static_cast<T>(static_cast<std::int64_t>(result) / ranks);
  return static_cast<T>(static_cast<std::uint64_t>(result) / static_cast<std::uint64_t>(ranks));
}

bool truth_value(tuttiRedOp_t op, int rank, std::size_t i) {
  const std::uint64_t dice = random_bits(rank, i) % 4;
  if (op == tuttiBitXor) return dice < 2;
  return op == tuttiProd || op == tuttiMin || op == tuttiBitAnd ? dice != 0 : dice == 0;
}

bool truth_result(tuttiRedOp_t op, int ranks, std::size_t i) {
  int count = 0;
  for (int rank = 0; rank < ranks; ++rank) count += truth_value(op, rank, i) ? 1 : 0;
  if (op == tuttiBitXor) return count % 2 == 1;
  return op == tuttiProd || op == tuttiMin || op == tuttiBitAnd ? count == ranks : count > 0;
}

template <class T, class ValueAt>
Bytes period_of(ValueAt value_at) {
  Bytes bytes(kPeriod * sizeof(T));
  for (std::size_t i = 0; i < kPeriod; ++i) {
    const T value = value_at(i);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

template <class T>
Bytes contribution_as(tuttiRedOp_t op, int rank, int ranks) {
  return period_of<T>([&](std::size_t i) {
    T value{};
    if constexpr (std::is_same_v<T, Truth>) {
      value.bits = truth_value(op, rank, i) ? 1 : 0;
    } else if constexpr (std::is_integral_v<T>) {
      value = integer_value<T>(op, rank, i);
    } else {
      store(float_value(op, rank, ranks, i), &value);
    }
    return value;
  });
}

template <class T>
Bytes reduction_as(tuttiRedOp_t op, int ranks) {
  return period_of<T>([&](std::size_t i) {
    if constexpr (std::is_same_v<T, Truth>) {
      return Truth{static_cast<std::uint8_t>(truth_result(op, ranks, i) ? 1 : 0)};
    } else if constexpr (std::is_integral_v<T>) {
      return integer_result<T>(op, ranks, i);
    } else {
      return float_result<T>(op, ranks, i);
    }
  });
}

/// Calls body with a value of the C++ type that stands for `type`.
template <class Body>
Bytes with_type(tuttiDataType_t type, Body body) {
  switch (type) {
    case tuttiInt8:
      return body(std::int8_t{});
    case tuttiUint8:
      return body(std::uint8_t{});
    case tuttiInt16:
      return body(std::int16_t{});
    case tuttiUint16:
      return body(std::uint16_t{});
    case tuttiInt32:
      return body(std::int32_t{});
    case tuttiUint32:
      return body(std::uint32_t{});
    case tuttiInt64:
      return body(std::int64_t{});
    case tuttiUint64:
      return body(std::uint64_t{});
    case tuttiFloat16:
      return body(Half{});
    case tuttiFloat64:
      return body(double{});
    case tuttiBfloat16:
      return body(Brain{});
    case tuttiBool:
      return body(Truth{});
    default:
      return body(float{});
  }
}

}  // namespace

std::size_t width_of(tuttiDataType_t type) {
  constexpr std::size_t widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 2, 2, 1};
  return widths[static_cast<std::size_t>(type)];
}

const char* name_of(tuttiDataType_t type) {
  constexpr const char* names[] = {"int8",    "uint8",    "int32",  "uint32", "int64", "uint64", "float16", "float32",
                                   "float64", "bfloat16", "f8e4m3", "f8e5m2", "int16", "uint16", "bool"};
  return names[static_cast<std::size_t>(type)];
}

bool is_float(tuttiDataType_t type) { return type >= tuttiFloat16 && type <= tuttiFloat8e5m2; }

Bytes contribution(tuttiDataType_t type, tuttiRedOp_t op, int rank, int ranks) {
  return with_type(type, [&](auto sample) { return contribution_as<decltype(sample)>(op, rank, ranks); });
}

Bytes reduction(tuttiDataType_t type, tuttiRedOp_t op, int ranks) {
  return with_type(type, [&](auto sample) { return reduction_as<decltype(sample)>(op, ranks); });
}

Bytes payload(tuttiDataType_t type, int rank) {
  Bytes bytes(kPeriod * width_of(type));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(random_bits(rank + 500, i));
    bytes[i] = type == tuttiBool ? byte & 1 : byte;
  }
  return bytes;
}

}  // namespace tutti::cases
