// The kernels of the one list of types and operations. Included by one source file per instruction set, which defines
// TUTTI_ISA and is compiled with that set's flags (flags.cmake).
#pragma once

#include "kernels/arithmetic.h"
#include "kernels/isa_table.h"
#include "kernels/mapping.h"
#include "kernels/reduction.h"
#include "kernels/reduction_list.h"

namespace tutti::TUTTI_ISA {

/// Avg of integers: the sum, divided in a second pass over the destination. Inside the sum's loops a division would be
/// unrolled into hundreds of instructions, and tiles are small enough to be still in the cache.
template <class T>
void average_integers(const ReduceArgs& args) {
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

/// Puts the kernels of the list into a table.
struct TableFiller {
  IsaTable& table;

  template <class Format, class Op>
  constexpr void add(DataType type, RedOp op) {
    table.reduce[static_cast<int>(type)][static_cast<int>(op)] = kernel<Format, Op>(size_of(type));
  }

 private:
  template <class Format, class Op>
  static constexpr ReduceKernel kernel(Bytes element) {
    constexpr bool kBitwise = std::is_same_v<Op, And> || std::is_same_v<Op, Or> || std::is_same_v<Op, Xor>;
    if constexpr (kBitwise && std::is_same_v<Format, Plain<std::uint8_t>>) {
      if (element.value == 2) return combine_bytes<std::uint16_t, Op>;
      if (element.value == 4) return combine_bytes<std::uint32_t, Op>;
      if (element.value == 8) return combine_bytes<std::uint64_t, Op>;
    }
    if constexpr (std::is_same_v<Op, Mean>) {
      return mean<Format>();
    } else {
      return Reduction<Format, Op>::run;
    }
  }
  template <class Format>
  static constexpr ReduceKernel mean() {
    if constexpr (std::is_integral_v<typename Format::Lane>) {
      return average_integers<typename Format::Quotient>;
    } else {
      return Reduction<Format, Add>::run;
    }
  }
};

template <class T>
constexpr void set_scale_of_integer(IsaTable& table, DataType type) {
  table.scale[static_cast<int>(type)] = Scaling<Plain<std::make_unsigned_t<T>>, Multiply>::run;
}

template <class Codec>
constexpr void set_conversions(IsaTable& table, DataType type) {
  table.scale[static_cast<int>(type)] = Scaling<Widened<Codec>, Multiply>::run;
  table.narrow[static_cast<int>(type)] = Narrowing<Codec>::run;
  table.widen[static_cast<int>(type)] = Widening<Codec>::run;
}

/// A copy is a reduction of one source: the same loops, no arithmetic.
inline void copy(void* destination, const void* source, std::size_t bytes, bool stream) {
  const void* const sources[] = {source};
  Reduction<Plain<std::uint8_t>, Or>::run({sources, 1, destination, nullptr, bytes, 1, stream});
}

constexpr IsaTable make_table(const char* name) {
  IsaTable table{name, {}, copy, {}, {}, {}};
  TableFiller filler{table};
  list_reductions(filler);
  for (DataType type : {DataType::kInt8, DataType::kUint8}) set_scale_of_integer<std::uint8_t>(table, type);
  for (DataType type : {DataType::kInt16, DataType::kUint16}) set_scale_of_integer<std::uint16_t>(table, type);
  for (DataType type : {DataType::kInt32, DataType::kUint32}) set_scale_of_integer<std::uint32_t>(table, type);
  for (DataType type : {DataType::kInt64, DataType::kUint64}) set_scale_of_integer<std::uint64_t>(table, type);
  set_conversions<HalfCodec>(table, DataType::kFloat16);
  set_conversions<BrainCodec>(table, DataType::kBfloat16);
  set_conversions<Float8e4m3Codec>(table, DataType::kFloat8e4m3);
  set_conversions<Float8e5m2Codec>(table, DataType::kFloat8e5m2);
  table.scale[static_cast<int>(DataType::kFloat32)] = Scaling<Real<float>, Multiply>::run;
  table.scale[static_cast<int>(DataType::kFloat64)] = Scaling<Real<double>, Multiply>::run;
  table.scale[static_cast<int>(DataType::kBool)] = Scaling<Truth, And>::run;
  return table;
}

}  // namespace tutti::TUTTI_ISA
