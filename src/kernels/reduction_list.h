// The one list of types and operations, for processors and GPUs: which format and operation a pair of them is.
#pragma once

#include "core/types.h"
#include "kernels/arithmetic.h"

// A sink may be for the host, for the device or for both.
#if defined(__CUDACC__)
#define TUTTI_LIST _Pragma("nv_exec_check_disable")
#else
#define TUTTI_LIST
#endif

namespace tutti::TUTTI_ISA {

/// Whether a sink that looks for one type needs no pair of `type`. Such a sink says so by is_other(type).
TUTTI_LIST
template <class Sink>
TUTTI_HD constexpr bool skips(const Sink& sink, DataType type) {
  if constexpr (requires { sink.is_other(type); }) return sink.is_other(type);
  return false;
}

// Only Avg, Min and Max know an integer's sign; the others share the unsigned type's code.
TUTTI_LIST
template <class T, class Sink>
TUTTI_HD constexpr void list_integer(Sink& sink, DataType type) {
  if (skips(sink, type)) return;
  using Bits = Plain<std::make_unsigned_t<T>>;
  sink.template add<Bits, Add>(type, RedOp::kSum);
  sink.template add<Averaged<T>, Mean>(type, RedOp::kAvg);
  sink.template add<Bits, Multiply>(type, RedOp::kProd);
  sink.template add<Plain<T>, Largest>(type, RedOp::kMax);
  sink.template add<Plain<T>, Smallest>(type, RedOp::kMin);
  // Bitwise operations do not care how wide the integers are either.
  sink.template add<Plain<std::uint8_t>, And>(type, RedOp::kBitAnd);
  sink.template add<Plain<std::uint8_t>, Or>(type, RedOp::kBitOr);
  sink.template add<Plain<std::uint8_t>, Xor>(type, RedOp::kBitXor);
}

TUTTI_LIST
template <class T, class Sink>
TUTTI_HD constexpr void list_real(Sink& sink, DataType type) {
  if (skips(sink, type)) return;
  sink.template add<Real<T>, Add>(type, RedOp::kSum);
  sink.template add<Real<T>, Mean>(type, RedOp::kAvg);
  sink.template add<Real<T>, Multiply>(type, RedOp::kProd);
  sink.template add<Real<T>, LargestReal>(type, RedOp::kMax);
  sink.template add<Real<T>, SmallestReal>(type, RedOp::kMin);
}

/// 8 and 16-bit floats; T, kLargest and kNan as in Ordered.
TUTTI_LIST
template <class Codec, class T, T kLargest, T kNan, class Sink>
TUTTI_HD constexpr void list_small_float(Sink& sink, DataType type) {
  using Range = std::numeric_limits<T>;
  if (skips(sink, type)) return;
  sink.template add<Widened<Codec>, Add>(type, RedOp::kSum);
  sink.template add<Widened<Codec>, Mean>(type, RedOp::kAvg);
  sink.template add<Widened<Codec>, Multiply>(type, RedOp::kProd);
  sink.template add<Ordered<T, kLargest, kNan, Range::max()>, Largest>(type, RedOp::kMax);
  sink.template add<Ordered<T, kLargest, kNan, Range::min()>, Smallest>(type, RedOp::kMin);
}

TUTTI_LIST
template <class Sink>
TUTTI_HD constexpr void list_bool(Sink& sink) {
  if (skips(sink, DataType::kBool)) return;
  sink.template add<Truth, Or>(DataType::kBool, RedOp::kSum);
  sink.template add<Truth, Or>(DataType::kBool, RedOp::kMax);
  sink.template add<Truth, Or>(DataType::kBool, RedOp::kBitOr);
  sink.template add<Truth, And>(DataType::kBool, RedOp::kProd);
  sink.template add<Truth, And>(DataType::kBool, RedOp::kMin);
  sink.template add<Truth, And>(DataType::kBool, RedOp::kBitAnd);
  sink.template add<Truth, Xor>(DataType::kBool, RedOp::kBitXor);
}

TUTTI_LIST
template <class Sink>
TUTTI_HD constexpr void list_integers(Sink& sink) {
  list_integer<std::int8_t>(sink, DataType::kInt8);
  list_integer<std::uint8_t>(sink, DataType::kUint8);
  list_integer<std::int16_t>(sink, DataType::kInt16);
  list_integer<std::uint16_t>(sink, DataType::kUint16);
  list_integer<std::int32_t>(sink, DataType::kInt32);
  list_integer<std::uint32_t>(sink, DataType::kUint32);
  list_integer<std::int64_t>(sink, DataType::kInt64);
  list_integer<std::uint64_t>(sink, DataType::kUint64);
}

TUTTI_LIST
template <class Sink>
TUTTI_HD constexpr void list_reals(Sink& sink) {
  list_real<float>(sink, DataType::kFloat32);
  list_real<double>(sink, DataType::kFloat64);
}

TUTTI_LIST
template <class Sink>
TUTTI_HD constexpr void list_small_floats(Sink& sink) {
  list_small_float<HalfCodec, std::int16_t, 0x7c00, 0x7e00>(sink, DataType::kFloat16);
  list_small_float<BrainCodec, std::int16_t, 0x7f80, 0x7fc0>(sink, DataType::kBfloat16);
  list_small_float<Float8e4m3Codec, std::int8_t, 0x7e, 0x7f>(sink, DataType::kFloat8e4m3);
  list_small_float<Float8e5m2Codec, std::int8_t, 0x7c, 0x7e>(sink, DataType::kFloat8e5m2);
}

/// Calls sink.add<Format, Op>(type, op) for every offered pair. A bitwise operation on integers is one on bytes: there
/// are size_of(type) as many.
TUTTI_LIST
template <class Sink>
TUTTI_HD constexpr void list_reductions(Sink& sink) {
  list_integers(sink);
  list_bool(sink);
  list_reals(sink);
  list_small_floats(sink);
}

struct TypeAndOp {
  DataType type;
  RedOp op;
  TUTTI_HD constexpr bool is(DataType other_type, RedOp other_op) const { return type == other_type && op == other_op; }
};

/// The first pair that list_reductions() gives the format and operation of this pair.
TUTTI_HD constexpr TypeAndOp first_alike(DataType type, RedOp op) {
  const bool is_or = op == RedOp::kSum || op == RedOp::kMax || op == RedOp::kBitOr;
  const bool is_and = op == RedOp::kProd || op == RedOp::kMin || op == RedOp::kBitAnd;
  if (type == DataType::kBool) return {type, is_or ? RedOp::kSum : is_and ? RedOp::kProd : op};
  if (is_bitwise(op)) return {DataType::kInt8, op};
  if (op != RedOp::kSum && op != RedOp::kProd) return {type, op};
  switch (type) {
    case DataType::kUint8:
      return {DataType::kInt8, op};
    case DataType::kUint16:
      return {DataType::kInt16, op};
    case DataType::kUint32:
      return {DataType::kInt32, op};
    case DataType::kUint64:
      return {DataType::kInt64, op};
    default:
      return {type, op};
  }
}

}  // namespace tutti::TUTTI_ISA

#undef TUTTI_LIST
