// Four bytes or two halves in a 32-bit word, combined without taking them apart: the bits between the fields are kept
// from carrying (Warren, "Hacker's Delight", 2nd edition, section 2-18).
#pragma once

#include "kernels/arithmetic.h"

namespace tutti::device {

/// Fields as wide as T.
template <class T>
struct Fields {
  static constexpr int kBits = 8 * sizeof(T);
  /// Every field equal to `value`.
  TUTTI_HD static constexpr std::uint32_t all(std::uint32_t value) {
    return kBits == 8 ? value * 0x01010101u : value * 0x00010001u;
  }
  static constexpr std::uint32_t kTop = sizeof(T) == 1 ? 0x80808080u : 0x80008000u;  ///< the top bit of each field

  /// All ones in the fields whose top bit is set in `marks`, which has no other bits.
  TUTTI_HD static std::uint32_t filled(std::uint32_t marks) { return (marks - (marks >> (kBits - 1))) | marks; }
  TUTTI_HD static std::uint32_t choose(std::uint32_t mask, std::uint32_t yes, std::uint32_t no) {
    return (mask & yes) | (~mask & no);
  }
  TUTTI_HD static std::uint32_t add(std::uint32_t a, std::uint32_t b) {
    return ((a & ~kTop) + (b & ~kTop)) ^ ((a ^ b) & kTop);
  }
};

/// Op::apply field by field.
template <class T, class Op>
TUTTI_HD inline std::uint32_t apply_to_fields(std::uint32_t a, std::uint32_t b) {
  constexpr int kBits = Fields<T>::kBits;
  std::uint32_t word = 0;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int shift = 0; shift < 32; shift += kBits) {
    const T field = Op::apply(static_cast<T>(a >> shift), static_cast<T>(b >> shift));
    word |= std::uint32_t{static_cast<std::make_unsigned_t<T>>(field)} << shift;
  }
  return word;
}

/// The larger or smaller of each field.
template <class T, class Op>
TUTTI_HD inline std::uint32_t extreme_of_fields(std::uint32_t a, std::uint32_t b) {
#if defined(__CUDA_ARCH__)
  constexpr bool kLarger = std::is_same_v<Op, portable::Largest>;
  if constexpr (std::is_same_v<T, std::int8_t>) return kLarger ? __vmaxs4(a, b) : __vmins4(a, b);
  if constexpr (std::is_same_v<T, std::uint8_t>) return kLarger ? __vmaxu4(a, b) : __vminu4(a, b);
  if constexpr (std::is_same_v<T, std::int16_t>) return kLarger ? __vmaxs2(a, b) : __vmins2(a, b);
  if constexpr (std::is_same_v<T, std::uint16_t>) return kLarger ? __vmaxu2(a, b) : __vminu2(a, b);
#else
  return apply_to_fields<T, Op>(a, b);
#endif
}

/// Integers of 8 and 16 bits: Plain<T>.
template <class T>
struct IntegerWords {
  TUTTI_HD static std::uint32_t widen(std::uint32_t word) { return word; }
  TUTTI_HD static std::uint32_t narrow(std::uint32_t word) { return word; }
  template <class Op>
  TUTTI_HD static std::uint32_t apply(std::uint32_t a, std::uint32_t b) {
    using namespace portable;
    if constexpr (std::is_same_v<Op, And> || std::is_same_v<Op, Or> || std::is_same_v<Op, Xor>) {
      return Op::apply(a, b);
    } else if constexpr (std::is_same_v<Op, Add>) {
      return Fields<T>::add(a, b);
    } else if constexpr (std::is_same_v<Op, Largest> || std::is_same_v<Op, Smallest>) {
      return extreme_of_fields<T, Op>(a, b);
    } else {
      return apply_to_fields<T, Op>(a, b);
    }
  }
};

/// Truth: nonzero bytes become 1.
struct TruthWords {
  TUTTI_HD static std::uint32_t widen(std::uint32_t word) {
    constexpr std::uint32_t kLow = 0x7f7f7f7fu;
    return ((((word & kLow) + kLow) | word) >> 7) & 0x01010101u;
  }
  TUTTI_HD static std::uint32_t narrow(std::uint32_t word) { return word; }
  template <class Op>
  TUTTI_HD static std::uint32_t apply(std::uint32_t a, std::uint32_t b) {
    return Op::apply(a, b);
  }
};

/// Ordered<T, kLargest, kNan, kNanKey> of arithmetic.h: small floats as integers of the same order.
template <class T, T kLargest, T kNan, T kNanKey>
struct OrderedWords {
  using F = Fields<T>;
  using U = std::make_unsigned_t<T>;

  TUTTI_HD static std::uint32_t widen(std::uint32_t word) {
    // The top bit of a field of the sum is set where the magnitude is beyond kLargest.
    const std::uint32_t sum = (word & ~F::kTop) + F::all(static_cast<U>(~F::kTop) - static_cast<U>(kLargest));
    return F::choose(F::filled(sum & F::kTop), F::all(static_cast<U>(kNanKey)), fold(word));
  }
  TUTTI_HD static std::uint32_t narrow(std::uint32_t keys) {
    // Fields that differ from the key have a bit set; a sum carries it to the top.
    const std::uint32_t differs = keys ^ F::all(static_cast<U>(kNanKey));
    const std::uint32_t other = (((differs & ~F::kTop) + ~F::kTop) | differs) & F::kTop;
    return F::choose(F::filled(other), fold(keys), F::all(static_cast<U>(kNan)));
  }
  template <class Op>
  TUTTI_HD static std::uint32_t apply(std::uint32_t a, std::uint32_t b) {
    return extreme_of_fields<T, Op>(a, b);
  }

 private:
  TUTTI_HD static std::uint32_t fold(std::uint32_t word) { return word ^ (F::filled(word & F::kTop) & ~F::kTop); }
};

}  // namespace tutti::device
