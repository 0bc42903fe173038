// The one table of types and operations. Included by one source file per instruction set, which defines TUTTI_ISA and
// is compiled with that set's flags (flags.cmake).
#pragma once

#include "kernels/arithmetic.h"
#include "kernels/isa_copy.h"
#include "kernels/isa_table.h"
#include "kernels/reduction.h"

namespace tutti::TUTTI_ISA {

/// Sum and Avg of integers. Avg divides in a second pass over the destination: inside the sum's loops a division would
/// be unrolled into hundreds of instructions, and tiles are small enough to be still in the cache.
template <class T>
void sum_integers(const ReduceArgs& args) {
  using Format = Wrapping<T>;
  using Sum = Reduction<Format, Add>;
  if (args.divisor == 1) return Sum::run(args);
  ReduceArgs sum = args;
  sum.second = nullptr;
  sum.stream = false;
  Sum::run(sum);
  typedef typename Format::Storage Anywhere __attribute__((aligned(1), may_alias));
  Anywhere* result = static_cast<Anywhere*>(args.destination);
  for (std::size_t i = 0; i < args.count; ++i) result[i] = Format::divide(result[i], args.divisor);
  if (args.second != nullptr) __builtin_memcpy(args.second, result, args.count * sizeof(T));
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
  set(table, type, RedOp::kProd, Reduction<Wrapping<Bits>, Multiply>::run);
  set(table, type, RedOp::kMax, Reduction<Plain<T>, Largest>::run);
  set(table, type, RedOp::kMin, Reduction<Plain<T>, Smallest>::run);
  set(table, type, RedOp::kBitAnd, Reduction<Wrapping<Bits>, And>::run);
  set(table, type, RedOp::kBitOr, Reduction<Wrapping<Bits>, Or>::run);
  set(table, type, RedOp::kBitXor, Reduction<Wrapping<Bits>, Xor>::run);
}

/// `Bits`: the signed integer of the float's size; kInfinity and kNan: its patterns.
template <class Format, class Bits, Bits kInfinity, Bits kNan>
constexpr void set_float(IsaTable& table, DataType type) {
  using Limits = std::numeric_limits<Bits>;
  set(table, type, RedOp::kSum, Reduction<Format, Add>::run);
  set(table, type, RedOp::kAvg, Reduction<Format, Add>::run);
  set(table, type, RedOp::kProd, Reduction<Format, Multiply>::run);
  set(table, type, RedOp::kMax, Reduction<Ordered<Bits, kInfinity, kNan, Limits::max()>, Largest>::run);
  set(table, type, RedOp::kMin, Reduction<Ordered<Bits, kInfinity, kNan, Limits::min()>, Smallest>::run);
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
}

constexpr IsaTable make_table(const char* name) {
  IsaTable table{name, {}, copy, copy_twice};
  set_integer<std::int8_t>(table, DataType::kInt8);
  set_integer<std::uint8_t>(table, DataType::kUint8);
  set_integer<std::int16_t>(table, DataType::kInt16);
  set_integer<std::uint16_t>(table, DataType::kUint16);
  set_integer<std::int32_t>(table, DataType::kInt32);
  set_integer<std::uint32_t>(table, DataType::kUint32);
  set_integer<std::int64_t>(table, DataType::kInt64);
  set_integer<std::uint64_t>(table, DataType::kUint64);
  set_float<Widened<HalfCodec>, std::int16_t, 0x7c00, 0x7e00>(table, DataType::kFloat16);
  set_float<Widened<BrainCodec>, std::int16_t, 0x7f80, 0x7fc0>(table, DataType::kBfloat16);
  set_float<Real<float>, std::int32_t, 0x7f800000, 0x7fc00000>(table, DataType::kFloat32);
  set_float<Real<double>, std::int64_t, 0x7ff0000000000000, 0x7ff8000000000000>(table, DataType::kFloat64);
  set_bool(table);
  return table;
}

}  // namespace tutti::TUTTI_ISA
