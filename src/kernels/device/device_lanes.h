// The lanes of a pack: what arithmetic.h does with one value, for sixteen bytes of them. The general form does it value
// by value. The others give the same results with fewer instructions, as 8-bit types need them: several values in a
// word, or the device's instructions for conversions.
#pragma once

#include "kernels/arithmetic.h"
#include "kernels/device/device_conversion.h"
#include "kernels/device/device_pack.h"
#include "kernels/packed_words.h"

namespace tutti::device {

/// Lanes whose range is so small that quotients of them and what these lack of being exact are normal floats.
template <class Format>
inline constexpr bool kDividesByReciprocal = false;
template <>
inline constexpr bool kDividesByReciprocal<portable::Widened<portable::HalfCodec>> = true;
template <>
inline constexpr bool kDividesByReciprocal<portable::Widened<portable::Float8e4m3Codec>> = true;
template <>
inline constexpr bool kDividesByReciprocal<portable::Widened<portable::Float8e5m2Codec>> = true;

/// The divisor of Mean and what the division needs. Each thread makes it once.
struct Divisor {
  TUTTI_HD explicit Divisor(std::uint32_t divisor)
      : value(divisor), steps(65535 / divisor + 1), reciprocal(1 / static_cast<float>(divisor)) {}

  /// Smaller ones have so few bits that quotient() is right.
  static constexpr std::uint32_t kSmall = 1u << 20;

  /// The float that is nearest to lane / value, as a division gives it. The estimate is off by less than two units in
  /// its last place, so what it lacks, times value, is a whole number of such units below 2^21, and exact. What is
  /// added is off by less than 2^-22 units. The quotient itself is 2^-21 units or more away from what is half way
  /// between two floats, as value is less than kSmall; it is never half way, or times value it would have more bits
  /// than a lane has (Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990).
  /// Zeros keep their sign, infinities and NaNs stay.
  TUTTI_HD float quotient(float lane) const {
    const float estimate = lane * reciprocal;
    const float lacking = __builtin_fmaf(-estimate, static_cast<float>(value), lane);
    const bool is_exact = !(lacking < 0 || lacking > 0);
    return is_exact ? estimate : __builtin_fmaf(lacking, reciprocal, estimate);
  }

  std::uint32_t value;
  /// 65536 / value, rounded up. A number m below 256 divided by value and rounded down is m * steps / 65536: that is
  /// too large by at most 255 * (value - 1) / 65536 parts of `value`, which is less than one up to a value of 257, and
  /// beyond 255 the product is less than 65536.
  std::uint32_t steps;
  float reciprocal;
};

/// Every lane divided. By a power of two a float is multiplied, to the same bits: both round the same number once.
template <class Format, int kCount>
TUTTI_HD inline void divide_lanes(typename Format::Lane (&lanes)[kCount], const Divisor& divisor) {
  using Lane = typename Format::Lane;
  if constexpr (kDividesByReciprocal<Format>) {
    TUTTI_UNROLL
    for (int i = 0; i < kCount; ++i) lanes[i] = divisor.quotient(lanes[i]);
  } else {
    if constexpr (std::is_floating_point_v<Lane>) {
      if ((divisor.value & (divisor.value - 1)) == 0) {
        const Lane factor = 1 / static_cast<Lane>(divisor.value);
        TUTTI_UNROLL
        for (int i = 0; i < kCount; ++i) lanes[i] *= factor;
        return;
      }
    }
    TUTTI_UNROLL
    for (int i = 0; i < kCount; ++i) lanes[i] = portable::divide_lane<Format>(lanes[i], divisor.value);
  }
}

template <class Format>
class PackLanes {
 public:
  using Storage = typename Format::Storage;
  static constexpr int kCount = kElements<Storage>;

  TUTTI_HD void widen(const Pack& pack) {
    Storage stored[kCount];
    __builtin_memcpy(stored, &pack, sizeof(Pack));
    TUTTI_UNROLL
    for (int i = 0; i < kCount; ++i) lanes_[i] = Format::widen(stored[i]);
  }
  TUTTI_HD Pack narrow() const {
    Storage stored[kCount];
    TUTTI_UNROLL
    for (int i = 0; i < kCount; ++i) stored[i] = Format::narrow(lanes_[i]);
    Pack pack;
    __builtin_memcpy(&pack, stored, sizeof(Pack));
    return pack;
  }
  template <class Op>
  TUTTI_HD void combine(const PackLanes& right) {
    TUTTI_UNROLL
    for (int i = 0; i < kCount; ++i) lanes_[i] = Op::apply(lanes_[i], right.lanes_[i]);
  }
  TUTTI_HD void divide(const Divisor& divisor) { divide_lanes<Format>(lanes_, divisor); }

 private:
  typename Format::Lane lanes_[kCount];
};

/// 8 and 16-bit floats, converted a word at a time.
template <class Codec>
class PackLanes<portable::Widened<Codec>> {
 public:
  using Storage = typename Codec::Storage;
  static constexpr int kCount = kElements<Storage>;

  TUTTI_HD void widen(const Pack& pack) {
    TUTTI_UNROLL
    for (int w = 0; w < 4; ++w) Conversion<Codec>::widen(pack.words[w], lanes_ + w * kInWord);
  }
  TUTTI_HD Pack narrow() const {
    Pack pack;
    TUTTI_UNROLL
    for (int w = 0; w < 4; ++w) pack.words[w] = Conversion<Codec>::narrow(lanes_ + w * kInWord);
    return pack;
  }
  template <class Op>
  TUTTI_HD void combine(const PackLanes& right) {
    TUTTI_UNROLL
    for (int i = 0; i < kCount; ++i) lanes_[i] = Op::apply(lanes_[i], right.lanes_[i]);
  }
  TUTTI_HD void divide(const Divisor& divisor) { divide_lanes<portable::Widened<Codec>>(lanes_, divisor); }

 private:
  static constexpr int kInWord = 4 / sizeof(Storage);
  float lanes_[kCount];
};

/// A pack, or a part of it so small that a thread can hold those of several sources.
template <class Format>
struct PackPart : PackLanes<Format> {
  static constexpr int kParts = 1;
  TUTTI_HD void widen(const Pack& pack, int) { PackLanes<Format>::widen(pack); }
  TUTTI_HD void narrow(Pack* pack, int) const { *pack = PackLanes<Format>::narrow(); }
};

/// One word of small floats. Parts are not unrolled, so words are chosen without an index of registers.
template <class Codec>
struct PackPart<portable::Widened<Codec>> {
  static constexpr int kParts = 4;
  static constexpr int kCount = 4 / sizeof(typename Codec::Storage);
  TUTTI_HD void widen(const Pack& pack, int part) {
    std::uint32_t word = pack.words[0];
    TUTTI_UNROLL
    for (int p = 1; p < kParts; ++p) word = p == part ? pack.words[p] : word;
    Conversion<Codec>::widen(word, lanes);
  }
  TUTTI_HD void narrow(Pack* pack, int part) const {
    const std::uint32_t word = Conversion<Codec>::narrow(lanes);
    TUTTI_UNROLL
    for (int p = 0; p < kParts; ++p) pack->words[p] = p == part ? word : pack->words[p];
  }
  template <class Op>
  TUTTI_HD void combine(const PackPart& right) {
    TUTTI_UNROLL
    for (int i = 0; i < kCount; ++i) lanes[i] = Op::apply(lanes[i], right.lanes[i]);
  }
  TUTTI_HD void divide(const Divisor& divisor) { divide_lanes<portable::Widened<Codec>>(lanes, divisor); }

  float lanes[kCount];
};

/// One double.
template <>
struct PackPart<portable::Real<double>> {
  using Format = portable::Real<double>;
  static constexpr int kParts = 2;
  TUTTI_HD void widen(const Pack& pack, int part) {
    double values[2];
    __builtin_memcpy(values, &pack, sizeof(Pack));
    lanes[0] = Format::widen(part == 0 ? values[0] : values[1]);
  }
  TUTTI_HD void narrow(Pack* pack, int part) const {
    double values[2];
    __builtin_memcpy(values, pack, sizeof(Pack));
    const double value = Format::narrow(lanes[0]);
    values[0] = part == 0 ? value : values[0];
    values[1] = part == 1 ? value : values[1];
    __builtin_memcpy(pack, values, sizeof(Pack));
  }
  template <class Op>
  TUTTI_HD void combine(const PackPart& right) {
    lanes[0] = Op::apply(lanes[0], right.lanes[0]);
  }
  TUTTI_HD void divide(const Divisor& divisor) { divide_lanes<Format>(lanes, divisor); }

  double lanes[1];
};

/// Formats whose lanes stay packed in words: Words is the PackedWords of the format.
template <class Words>
class WordLanes {
 public:
  TUTTI_HD void widen(const Pack& pack) {
    TUTTI_UNROLL
    for (int w = 0; w < 4; ++w) pack_.words[w] = Words::widen(pack.words[w]);
  }
  TUTTI_HD Pack narrow() const {
    Pack pack;
    TUTTI_UNROLL
    for (int w = 0; w < 4; ++w) pack.words[w] = Words::narrow(pack_.words[w]);
    return pack;
  }
  template <class Op>
  TUTTI_HD void combine(const WordLanes& right) {
    TUTTI_UNROLL
    for (int w = 0; w < 4; ++w) pack_.words[w] = Words::template apply<Op>(pack_.words[w], right.pack_.words[w]);
  }

 protected:
  Pack pack_;
};

template <>
class PackLanes<portable::Truth> : public WordLanes<TruthWords> {};
template <>
class PackLanes<portable::Plain<std::uint8_t>> : public WordLanes<IntegerWords<std::uint8_t>> {};
template <>
class PackLanes<portable::Plain<std::int8_t>> : public WordLanes<IntegerWords<std::int8_t>> {};
template <>
class PackLanes<portable::Plain<std::uint16_t>> : public WordLanes<IntegerWords<std::uint16_t>> {};
template <>
class PackLanes<portable::Plain<std::int16_t>> : public WordLanes<IntegerWords<std::int16_t>> {};
/// 16-bit integers, divided field by field.
template <class T>
class AveragedLanes : public WordLanes<IntegerWords<std::make_unsigned_t<T>>> {
 public:
  TUTTI_HD void divide(const Divisor& divisor) {
    using Bits = std::make_unsigned_t<T>;
    TUTTI_UNROLL
    for (int w = 0; w < 4; ++w) {
      std::uint32_t& word = this->pack_.words[w];
      std::uint32_t quotients = 0;
      TUTTI_UNROLL
      for (int shift = 0; shift < 32; shift += 8 * sizeof(T)) {
        quotients |= std::uint32_t{portable::divide<T>(static_cast<Bits>(word >> shift), divisor.value)} << shift;
      }
      word = quotients;
    }
  }
};
/// 8-bit integers: magnitudes are divided by a multiplication, signs are taken off and put back four at a time.
template <class T>
requires(sizeof(T) == 1) class AveragedLanes<T> : public WordLanes<IntegerWords<std::uint8_t>> {
 public:
  TUTTI_HD void divide(const Divisor& divisor) {
    TUTTI_UNROLL
    for (int w = 0; w < 4; ++w) pack_.words[w] = divided(pack_.words[w], divisor);
  }

 private:
  using F = Fields<std::uint8_t>;
  TUTTI_HD static std::uint32_t divided(std::uint32_t word, const Divisor& divisor) {
    if constexpr (std::is_unsigned_v<T>) {
      return quotients(word, divisor);
    } else {
      const std::uint32_t negative = word & F::kTop;
      const std::uint32_t ones = negative >> 7, mask = F::filled(negative);
      // A negative field has all bits turned and one added: at most 128, so that nothing carries into the next field.
      const std::uint32_t quotient = quotients((word ^ mask) + ones, divisor);
      return F::add(quotient ^ mask, ones);
    }
  }
  TUTTI_HD static std::uint32_t quotients(std::uint32_t word, const Divisor& divisor) {
    std::uint32_t products[4];
    TUTTI_UNROLL
    for (int i = 0; i < 4; ++i) products[i] = (word >> (8 * i) & 0xff) * divisor.steps;
#if defined(__CUDA_ARCH__)
    return __byte_perm(__byte_perm(products[0], products[1], 0x0062), __byte_perm(products[2], products[3], 0x0062),
                       0x5410);
#else
    std::uint32_t result = 0;
    for (int i = 0; i < 4; ++i) result |= products[i] >> 16 << (8 * i);
    return result;
#endif
  }
};
template <>
class PackLanes<portable::Averaged<std::uint8_t>> : public AveragedLanes<std::uint8_t> {};
template <>
class PackLanes<portable::Averaged<std::int8_t>> : public AveragedLanes<std::int8_t> {};
template <>
class PackLanes<portable::Averaged<std::uint16_t>> : public AveragedLanes<std::uint16_t> {};
template <>
class PackLanes<portable::Averaged<std::int16_t>> : public AveragedLanes<std::int16_t> {};
template <class T, T kLargest, T kNan, T kNanKey>
class PackLanes<portable::Ordered<T, kLargest, kNan, kNanKey>>
    : public WordLanes<OrderedWords<T, kLargest, kNan, kNanKey>> {};

}  // namespace tutti::device
