// The one table of types and operations. Included by one source file per instruction set, which defines TUTTI_ISA and
// is compiled with that set's flags (flags.cmake).
#pragma once

#include "kernels/arithmetic.h"
#include "kernels/isa_table.h"
#include "kernels/mapping.h"
#include "kernels/reduction.h"

namespace tutti::TUTTI_ISA {

/// Sum and Avg of integers. Avg divides in a second pass over the destination: inside the sum's loops a division would
/// be unrolled into hundreds of instructions, and tiles are small enough to be still in the cache.
template <class T>
void sum_integers(const ReduceArgs& args) {
  using Bits = std::make_unsigned_t<T>;
  using Sum = Reduction<Plain<Bits>, Add>;
  if (args.divisor == 1) return Sum::run(args);
  ReduceArgs sum = args;
  sum.second = nullptr;
  sum.stream = false;
  Sum::run(sum);
  typedef Bits Anywhere __attribute__((aligned(1), may_alias));
  Anywhere* result = static_cast<Anywhere*>(args.destination);
  for (std::size_t i = 0; i < args.count; ++i) result[i] = divide<T>(result[i], args.divisor);
  if (args.second != nullptr) __builtin_memcpy(args.second, result, args.count * sizeof(T));
}

/// Bitwise operations do not care how wide the integers are: one kernel of bytes serves all.
template <class T, class Op>
void combine_bytes(const ReduceArgs& args) {
  ReduceArgs bytes = args;
  bytes.count = args.count * sizeof(T);
  Reduction<Plain<std::uint8_t>, Op>::run(bytes);
}

constexpr void set(IsaTable& table, DataType type, RedOp op, ReduceKernel kernel) {
  table.reduce[static_cast<int>(type)][static_cast<int>(op)] = kernel;
}

template <class T>
constexpr void set_integer(IsaTable& table, DataType type) {
  // Only Avg, Min and Max know the sign; the others share the unsigned type's code.
  using Bits = std::make_unsigned_t<T>;
  set(table, type, RedOp::kSum, sum_integers<T>);
  set(table, type, RedOp::kAvg, sum_integers<T>);
  set(table, type, RedOp::kProd, Reduction<Plain<Bits>, Multiply>::run);
  set(table, type, RedOp::kMax, Reduction<Plain<T>, Largest>::run);
  set(table, type, RedOp::kMin, Reduction<Plain<T>, Smallest>::run);
  set(table, type, RedOp::kBitAnd, combine_bytes<Bits, And>);
  set(table, type, RedOp::kBitOr, combine_bytes<Bits, Or>);
  set(table, type, RedOp::kBitXor, combine_bytes<Bits, Xor>);
  table.scale[static_cast<int>(type)] = Scaling<Plain<Bits>, Multiply>::run;
}

template <class T>
constexpr void set_real(IsaTable& table, DataType type) {
  set(table, type, RedOp::kSum, Reduction<Real<T>, Add>::run);
  set(table, type, RedOp::kAvg, Reduction<Real<T>, Add>::run);
  set(table, type, RedOp::kProd, Reduction<Real<T>, Multiply>::run);
  set(table, type, RedOp::kMax, Reduction<Real<T>, LargestReal>::run);
  set(table, type, RedOp::kMin, Reduction<Real<T>, SmallestReal>::run);
  table.scale[static_cast<int>(type)] = Scaling<Real<T>, Multiply>::run;
}

/// 8 and 16-bit floats; T, kLargest and kNan as in Ordered.
template <class Codec, class T, T kLargest, T kNan>
constexpr void set_small_float(IsaTable& table, DataType type) {
  using Range = std::numeric_limits<T>;
  set(table, type, RedOp::kSum, Reduction<Widened<Codec>, Add>::run);
  set(table, type, RedOp::kAvg, Reduction<Widened<Codec>, Add>::run);
  set(table, type, RedOp::kProd, Reduction<Widened<Codec>, Multiply>::run);
  set(table, type, RedOp::kMax, Reduction<Ordered<T, kLargest, kNan, Range::max()>, Largest>::run);
  set(table, type, RedOp::kMin, Reduction<Ordered<T, kLargest, kNan, Range::min()>, Smallest>::run);
  table.scale[static_cast<int>(type)] = Scaling<Widened<Codec>, Multiply>::run;
  table.narrow[static_cast<int>(type)] = Narrowing<Codec>::run;
  table.widen[static_cast<int>(type)] = Widening<Codec>::run;
}

constexpr void set_bool(IsaTable& table) {
  const ReduceKernel any = Reduction<Truth, Or>::run;
  const ReduceKernel all = Reduction<Truth, And>::run;
  set(table, DataType::kBool, RedOp::kSum, any);
  set(table, DataType::kBool, RedOp::kMax, any);
  set(table, DataType::kBool, RedOp::kBitOr, any);
  set(table, DataType::kBool, RedOp::kProd, all);
  set(table, DataType::kBool, RedOp::kMin, all);
  set(table, DataType::kBool, RedOp::kBitAnd, all);
  set(table, DataType::kBool, RedOp::kBitXor, Reduction<Truth, Xor>::run);
  table.scale[static_cast<int>(DataType::kBool)] = Scaling<Truth, And>::run;
}

/// A copy past the caches is a reduction of one source: the same loops, no arithmetic.
inline void copy_by_stream(void* destination, const void* source, std::size_t bytes) {
  const void* const sources[] = {source};
  Reduction<Plain<std::uint8_t>, Or>::run({sources, 1, destination, nullptr, bytes, 1, true});
}

constexpr IsaTable make_table(const char* name) {
  IsaTable table{name, {}, copy_by_stream, {}, {}, {}};
  set_integer<std::int8_t>(table, DataType::kInt8);
  set_integer<std::uint8_t>(table, DataType::kUint8);
  set_integer<std::int16_t>(table, DataType::kInt16);
  set_integer<std::uint16_t>(table, DataType::kUint16);
  set_integer<std::int32_t>(table, DataType::kInt32);
  set_integer<std::uint32_t>(table, DataType::kUint32);
  set_integer<std::int64_t>(table, DataType::kInt64);
  set_integer<std::uint64_t>(table, DataType::kUint64);
  set_small_float<HalfCodec, std::int16_t, 0x7c00, 0x7e00>(table, DataType::kFloat16);
  set_small_float<BrainCodec, std::int16_t, 0x7f80, 0x7fc0>(table, DataType::kBfloat16);
  set_small_float<Float8e4m3Codec, std::int8_t, 0x7e, 0x7f>(table, DataType::kFloat8e4m3);
  set_small_float<Float8e5m2Codec, std::int8_t, 0x7c, 0x7e>(table, DataType::kFloat8e5m2);
  set_real<float>(table, DataType::kFloat32);
  set_real<double>(table, DataType::kFloat64);
  set_bool(table);
  return table;
}

}  // namespace tutti::TUTTI_ISA
