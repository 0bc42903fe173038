// The arithmetic of reductions. A *format* says how stored values become the lanes that are combined (widen) and back
// (narrow); an *operation* combines two lanes. Both work on one value and on vectors of values.
//
// A NaN result is always the one quiet NaN with sign 0 and no payload: which payload an addition passes on depends on
// the processor and on how the compiler orders the operands, and results have to be the same bits everywhere.
#pragma once

#include <limits>

#include "kernels/float16.h"
#include "kernels/float8.h"
#include "kernels/lanes.h"

namespace tutti::TUTTI_ISA {

// Narrow integers are promoted to int by C++; the casts bring them back. Lanes are unsigned wherever they can wrap.
struct Add {
  template <class V>
  TUTTI_INLINE static V apply(V a, V b) {
    return static_cast<V>(a + b);
  }
};
/// Avg: a sum that is divided when it is complete.
struct Mean : Add {};
struct Multiply {
  template <class V>
  TUTTI_INLINE static V apply(V a, V b) {
    // 1u: two uint16_t would be promoted to int, whose product can overflow.
    if constexpr (std::is_integral_v<V>) return static_cast<V>(1u * a * b);
    return static_cast<V>(a * b);
  }
};
struct Largest {
  template <class V>
  TUTTI_INLINE static V apply(V a, V b) {
    return a > b ? a : b;
  }
};
struct Smallest {
  template <class V>
  TUTTI_INLINE static V apply(V a, V b) {
    return a < b ? a : b;
  }
};
struct And {
  template <class V>
  TUTTI_INLINE static V apply(V a, V b) {
    return static_cast<V>(a & b);
  }
};
struct Or {
  template <class V>
  TUTTI_INLINE static V apply(V a, V b) {
    return static_cast<V>(a | b);
  }
};
struct Xor {
  template <class V>
  TUTTI_INLINE static V apply(V a, V b) {
    return static_cast<V>(a ^ b);
  }
};

template <class T>
using WordsOf = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

/// Maximum and minimum of float and double; a NaN operand comes through. Only zeros are equal with different bits.
struct LargestReal {
  template <class V>
  TUTTI_INLINE static V apply(V a, V b) {
    using Lane = typename Shape<V>::Lane;
    using Words = WordsOf<Lane>;
    const V larger = a > b ? a : b;  // b if they are equal or one is a NaN
    const V zero = bits_as<Lane>(bits_as<Words>(a) & bits_as<Words>(b));
    const V ordered = a == b ? zero : larger;
    return a == a ? ordered : a;
  }
};
struct SmallestReal {
  template <class V>
  TUTTI_INLINE static V apply(V a, V b) {
    using Lane = typename Shape<V>::Lane;
    using Words = WordsOf<Lane>;
    const V smaller = a < b ? a : b;
    const V zero = bits_as<Lane>(bits_as<Words>(a) | bits_as<Words>(b));
    const V ordered = a == b ? zero : smaller;
    return a == a ? ordered : a;
  }
};

/// Formats whose stored lanes are combined as they are.
template <class T>
struct Plain {
  using Storage = T;
  using Lane = T;
  template <class V>
  TUTTI_INLINE static V widen(V stored) {
    return stored;
  }
  template <class V>
  TUTTI_INLINE static V narrow(V lanes) {
    return lanes;
  }
};

/// A wrapped sum, held in T's unsigned type, divided as a T and truncated toward zero. A float quotient truncates right
/// if the float holds the dividend exactly: a quotient short of an integer is short of it by more than rounding moves
/// it. Compilers vectorise that; they have no vectors of integer quotients.
template <class T>
TUTTI_INLINE std::make_unsigned_t<T> divide(std::make_unsigned_t<T> sum, std::uint32_t divisor) {
  const T value = static_cast<T>(sum);
  if constexpr (sizeof(T) == 8) {
    return static_cast<std::make_unsigned_t<T>>(value / static_cast<T>(divisor));
  } else {
    using Quotient = std::conditional_t<sizeof(T) == 4, double, float>;
    const Quotient quotient = static_cast<Quotient>(value) / static_cast<Quotient>(divisor);
    return static_cast<std::make_unsigned_t<T>>(static_cast<T>(quotient));
  }
}

/// Integers T whose sum is divided: wrapped sums have no sign, the quotient has.
template <class T>
struct Averaged : Plain<std::make_unsigned_t<T>> {
  using Quotient = T;
};

/// Truth values of one byte: nonzero is true, results are 0 or 1.
struct Truth {
  using Storage = std::uint8_t;
  using Lane = std::uint8_t;
  template <class V>
  TUTTI_INLINE static V widen(V stored) {
    const V zero = {};
    const V one = zero + 1;
    return stored != zero ? one : zero;
  }
  template <class V>
  TUTTI_INLINE static V narrow(V lanes) {
    return lanes;
  }
};

/// float and double: combined and rounded in their own precision.
template <class T>
struct Real : Plain<T> {
  template <class V>
  TUTTI_INLINE static V narrow(V lanes) {
    // The NaN is made from its bits, since one that was added to zero is another one on a GPU.
    constexpr auto kNan = __builtin_bit_cast(WordsOf<T>, static_cast<T>(__builtin_nan("")));
    const V nan = bits_as<T>(With<WordsOf<T>, V>{} + kNan);
    return lanes == lanes ? lanes : nan;
  }
};

/// 8 and 16-bit floats: combined in float, rounded once, to nearest even. `Codec` is one of float8.h or float16.h.
template <class Codec>
struct Widened {
  using Storage = typename Codec::Storage;
  using Lane = float;
  template <class V>
  TUTTI_INLINE static With<float, V> widen(V stored) {
    return Codec::widen(stored);
  }
  template <class V>
  TUTTI_INLINE static With<Storage, V> narrow(V lanes) {
    return Codec::narrow(lanes);
  }
};

/// 8 and 16-bit floats as integers T of the same order, for minimum and maximum: -0 < +0, and a NaN becomes kNanKey,
/// the end of T's range that wins. More lanes than the float form, and no rounding. kLargest: the largest pattern that
/// is no NaN; kNan: the quiet NaN.
template <class T, T kLargest, T kNan, T kNanKey>
struct Ordered {
  using Storage = T;
  using Lane = T;
  static constexpr T kMagnitude = std::numeric_limits<T>::max();
  template <class V>
  TUTTI_INLINE static V widen(V stored) {
    const V zero = {};
    const V magnitude = static_cast<V>(stored & kMagnitude);
    return magnitude > kLargest ? static_cast<V>(zero + kNanKey) : fold(stored);
  }
  template <class V>
  TUTTI_INLINE static V narrow(V keys) {
    const V zero = {};
    return keys == kNanKey ? static_cast<V>(zero + kNan) : fold(keys);
  }

 private:
  /// Its own inverse: negative floats grow with their magnitude's bits, integers must fall with them.
  template <class V>
  TUTTI_INLINE static V fold(V value) {
    const V zero = {};
    return value < zero ? static_cast<V>(value ^ kMagnitude) : value;
  }
};

/// The lanes of kCount stored values from `at` on.
template <class Format, int kCount>
TUTTI_INLINE Vec<typename Format::Lane, kCount> load_lanes(const void* source, std::size_t at) {
  using Storage = typename Format::Storage;
  return Format::widen(load_from<Vec<Storage, kCount>>(static_cast<const Storage*>(source) + at));
}

/// One combined lane after an Avg, before it is narrowed.
template <class Format>
TUTTI_INLINE typename Format::Lane divide_lane(typename Format::Lane lane, std::uint32_t divisor) {
  using Lane = typename Format::Lane;
  if constexpr (std::is_floating_point_v<Lane>) {
    return lane / static_cast<Lane>(divisor);
  } else {
    return divide<typename Format::Quotient>(lane, divisor);
  }
}

/// What is stored of combined lanes. Floats are divided before they are rounded.
template <class Format, int kCount>
TUTTI_INLINE Vec<typename Format::Storage, kCount> finish_lanes(Vec<typename Format::Lane, kCount> lanes,
                                                                std::uint32_t divisor) {
  using Lane = typename Format::Lane;
  if constexpr (std::is_floating_point_v<Lane>) {
    if (divisor != 1) lanes = lanes / static_cast<Lane>(divisor);
  }
  return Format::narrow(lanes);
}

}  // namespace tutti::TUTTI_ISA
