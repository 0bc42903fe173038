// The lanes of a pack: what arithmetic.h does with one value, for sixteen bytes of them. The general form does it value
// by value. The others give the same results with fewer instructions, as 8-bit types need them: several values in a
// word, or the device's instructions for conversions.
#pragma once

#include "kernels/arithmetic.h"
#include "kernels/device/device_conversion.h"
#include "kernels/device/device_pack.h"
#include "kernels/packed_words.h"

namespace tutti::device {

/// Every lane divided. By a power of two a float is multiplied, to the same bits: both round the same number once.
template <class Format, int kCount>
TUTTI_HD inline void divide_lanes(typename Format::Lane (&lanes)[kCount], std::uint32_t divisor) {
  using Lane = typename Format::Lane;
  if constexpr (std::is_floating_point_v<Lane>) {
    if ((divisor & (divisor - 1)) == 0) {
      const Lane factor = 1 / static_cast<Lane>(divisor);
      TUTTI_UNROLL
      for (int i = 0; i < kCount; ++i) lanes[i] *= factor;
      return;
    }
  }
  TUTTI_UNROLL
  for (int i = 0; i < kCount; ++i) lanes[i] = portable::divide_lane<Format>(lanes[i], divisor);
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
  TUTTI_HD void divide(std::uint32_t divisor) { divide_lanes<Format>(lanes_, divisor); }

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
  TUTTI_HD void divide(std::uint32_t divisor) { divide_lanes<portable::Widened<Codec>>(lanes_, divisor); }

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
  TUTTI_HD void divide(std::uint32_t divisor) { divide_lanes<portable::Widened<Codec>>(lanes, divisor); }

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
  TUTTI_HD void divide(std::uint32_t divisor) { divide_lanes<Format>(lanes, divisor); }

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
/// 8 and 16-bit integers, divided field by field.
template <class T>
class AveragedLanes : public WordLanes<IntegerWords<std::make_unsigned_t<T>>> {
 public:
  TUTTI_HD void divide(std::uint32_t divisor) {
    using Bits = std::make_unsigned_t<T>;
    TUTTI_UNROLL
    for (int w = 0; w < 4; ++w) {
      std::uint32_t& word = this->pack_.words[w];
      std::uint32_t quotients = 0;
      TUTTI_UNROLL
      for (int shift = 0; shift < 32; shift += 8 * sizeof(T)) {
        quotients |= std::uint32_t{portable::divide<T>(static_cast<Bits>(word >> shift), divisor)} << shift;
      }
      word = quotients;
    }
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
