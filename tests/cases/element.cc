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
struct Eight43 {
  std::uint8_t bits;
};
struct Eight52 {
  std::uint8_t bits;
};
template <class T>
constexpr bool kIsEight = std::is_same_v<T, Eight43> || std::is_same_v<T, Eight52>;

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
/// Sign, exponent with another bias and the upper bits of the significand; the value is exact and not subnormal.
std::uint32_t narrowed(double value, int exponent_bits, int mantissa_bits) {
  const std::uint32_t bits = bits_of(static_cast<float>(value));
  const std::uint32_t sign = bits >> 31 << (exponent_bits + mantissa_bits);
  if (value == 0) return sign;
  const std::uint32_t bias = (1U << (exponent_bits - 1)) - 1;
  const std::uint32_t exponent = (bits >> 23 & 0xff) - 127 + bias;
  return sign | exponent << mantissa_bits | (bits >> (23 - mantissa_bits) & ((1U << mantissa_bits) - 1));
}
void store(double value, Half* out) { out->bits = static_cast<std::uint16_t>(narrowed(value, 5, 10)); }
void store(double value, Eight43* out) { out->bits = static_cast<std::uint8_t>(narrowed(value, 4, 3)); }
void store(double value, Eight52* out) { out->bits = static_cast<std::uint8_t>(narrowed(value, 5, 2)); }

/// Small integers: any order of additions and multiplications of up to 8 of them is exact in the type; 8-bit floats
/// have integers up to 16 and 8, so of theirs all but the average's are -1, 0 or 1. The largest power of two of one of
/// them is 2^8, so that no more than eight factors are 2.
double float_value(bool eight, Operation op, int rank, int ranks, std::size_t i) {
  const std::uint64_t bits = random_bits(rank, i);
  if (op == Operation::kProd) return bits % 3 == 0 ? -1 : bits % 2 == 0 && (!eight || rank < 8) ? 2 : 1;
  if (op != Operation::kAvg) return eight ? static_cast<double>(bits % 3) - 1 : static_cast<double>(bits % 9) - 4;
  const double common = eight ? 0 : static_cast<double>(random_bits(77, i) % 5) - 2;
  const bool outlier = i % static_cast<std::size_t>(ranks) == static_cast<std::size_t>(rank);
  return common + (outlier ? ranks * (static_cast<double>(random_bits(78, i) % 3) - 1) : 0);
}

double float_scalar(bool eight, int rank) { return rank % 3 == 0 ? -1 : rank % 3 == 1 && !eight ? 2 : 1; }

double folded(double a, double b, Operation op) {
  switch (op) {
    case Operation::kProd:
      return a * b;
    case Operation::kMax:
      return a > b ? a : b;
    case Operation::kMin:
      return a < b ? a : b;
    default:
      return a + b;
  }
}

template <class T>
T float_result(Operation op, int ranks, std::size_t i) {
  const auto term = [&](int rank) {
    const double value = float_value(kIsEight<T>, op, rank, ranks, i);
    return op == Operation::kMulSum ? value * float_scalar(kIsEight<T>, rank) : value;
  };
  double result = term(0);
  for (int rank = 1; rank < ranks; ++rank) result = folded(result, term(rank), op);
  if (op == Operation::kAvg) result /= ranks;
  T stored{};
  store(result, &stored);
  return stored;
}

template <class T>
T integer_value(Operation op, int rank, std::size_t i) {
  const std::uint64_t bits = random_bits(rank, i);
  if (op == Operation::kBitAnd) return static_cast<T>(bits | random_bits(rank + 1000, i));
  if (op == Operation::kBitOr) return static_cast<T>(bits & random_bits(rank + 1000, i));
  return static_cast<T>(op == Operation::kProd ? bits | 1 : bits);
}

template <class T>
T folded_integer(T a, T b, Operation op) {
  using Wide = std::uint64_t;
  switch (op) {
    case Operation::kProd:
      return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
    case Operation::kMax:
      return a > b ? a : b;
    case Operation::kMin:
      return a < b ? a : b;
    case Operation::kBitAnd:
      return static_cast<T>(a & b);
    case Operation::kBitOr:
      return static_cast<T>(a | b);
    case Operation::kBitXor:
      return static_cast<T>(a ^ b);
    default:
      return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
  }
}

template <class T>
T integer_scalar(int rank) {
  return static_cast<T>(rank * 7 - 3);
}

template <class T>
T integer_result(Operation op, int ranks, std::size_t i) {
  const auto term = [&](int rank) {
    const T value = integer_value<T>(op, rank, i);
    return op == Operation::kMulSum ? folded_integer(value, integer_scalar<T>(rank), Operation::kProd) : value;
  };
  T result = term(0);
  for (int rank = 1; rank < ranks; ++rank) result = folded_integer(result, term(rank), op);
  if (op != Operation::kAvg) return result;
  if constexpr (std::is_signed_v<T>) return static_cast<T>(static_cast<std::int64_t>(result) / ranks);
  return static_cast<T>(static_cast<std::uint64_t>(result) / static_cast<std::uint64_t>(ranks));
}

bool truth_scalar(int rank) { return rank % 3 != 1; }

bool truth_value(Operation op, int rank, std::size_t i) {
  const std::uint64_t die = random_bits(rank, i) % 4;
  if (op == Operation::kBitXor) return die < 2;
  return op == Operation::kProd || op == Operation::kMin || op == Operation::kBitAnd ? die != 0 : die == 0;
}

bool truth_result(Operation op, int ranks, std::size_t i) {
  int count = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const bool taken = op != Operation::kMulSum || truth_scalar(rank);
    count += taken && truth_value(op, rank, i) ? 1 : 0;
  }
  if (op == Operation::kBitXor) return count % 2 == 1;
  return op == Operation::kProd || op == Operation::kMin || op == Operation::kBitAnd ? count == ranks : count > 0;
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
Bytes contribution_as(Operation op, int rank, int ranks) {
  return period_of<T>([&](std::size_t i) {
    T value{};
    if constexpr (std::is_same_v<T, Truth>) {
      value.bits = truth_value(op, rank, i) ? 1 : 0;
    } else if constexpr (std::is_integral_v<T>) {
      value = integer_value<T>(op, rank, i);
    } else {
      store(float_value(kIsEight<T>, op, rank, ranks, i), &value);
    }
    return value;
  });
}

template <class T>
Bytes reduction_as(Operation op, int ranks) {
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
    case tuttiFloat8e4m3:
      return body(Eight43{});
    case tuttiFloat8e5m2:
      return body(Eight52{});
    default:
      return body(float{});
  }
}

template <class T>
Bytes scalar_as(int rank) {
  T value{};
  if constexpr (std::is_same_v<T, Truth>) {
    value.bits = truth_scalar(rank) ? 1 : 0;
  } else if constexpr (std::is_integral_v<T>) {
    value = integer_scalar<T>(rank);
  } else {
    store(float_scalar(kIsEight<T>, rank), &value);
  }
  Bytes bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
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

Bytes contribution(tuttiDataType_t type, Operation op, int rank, int ranks) {
  if (op >= Operation::kAffine) return raw_contribution(width_of(type), op, rank);
  return with_type(type, [&](auto sample) { return contribution_as<decltype(sample)>(op, rank, ranks); });
}

Bytes reduction(tuttiDataType_t type, Operation op, int ranks) {
  if (op >= Operation::kAffine) return raw_reduction(width_of(type), op, ranks);
  return with_type(type, [&](auto sample) { return reduction_as<decltype(sample)>(op, ranks); });
}

Bytes scalar(tuttiDataType_t type, int rank) {
  return with_type(type, [&](auto sample) { return scalar_as<decltype(sample)>(rank); });
}

Bytes payload(tuttiDataType_t type, int stream) {
  Bytes bytes(kPeriod * width_of(type));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(random_bits(stream + 500, i));
    bytes[i] = type == tuttiBool ? byte & 1 : byte;
  }
  return bytes;
}

std::uint64_t dice(std::uint64_t seed, std::uint64_t a, std::uint64_t b) {
  return scrambled(scrambled(seed * 0x9e3779b97f4a7c15ULL + a) + b * 0xd6e8feb86659fd93ULL + 1);
}

}  // namespace tutti::cases
