// A pass over one buffer before or after a collective: each element multiplied by a scalar, or converted between float
// and an 8 or 16-bit float. By all threads of a grid; also compiles for the host. Results are those of scale(),
// narrow_floats() and widen_floats() of kernels.h bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/types.h"
#include "kernels/device/device_lanes.h"
#include "kernels/device/device_pack.h"
#include "kernels/reduction_list.h"

namespace tutti {

/// Plain data, a kernel's parameter.
struct DevicePass {
  enum class Kind : std::uint8_t { kScale, kNarrow, kWiden };
  Kind kind = Kind::kScale;
  DataType type = DataType::kUint8;  ///< of both buffers; of a conversion: the one that is not float
  const void* source = nullptr;
  void* destination = nullptr;  ///< equal to the source, if that has the same type, or apart from it
  std::size_t count = 0;
  const void* scalar = nullptr;  ///< where kernels read it when they run; nullptr: it is in `value`
  std::uint64_t value = 0;
};

namespace device {

/// What one thread does of a pass over units of one size: several at a time, with all loads before the first store, if
/// there are so many that every thread has work then.
template <int kMost, class Load, class Store>
TUTTI_HD inline void sweep(std::size_t thread, std::size_t threads, std::size_t units, const Load& load,
                           const Store& store) {
  std::size_t done = 0;
  if (units / kMost >= threads) {
    const std::size_t runs = units / (kMost * kSide);
    TUTTI_NO_UNROLL
    for (std::size_t run = thread / kSide; run < runs; run += threads / kSide) {
      const std::size_t at = run * (kMost * kSide) + thread % kSide;
      decltype(load(at)) loaded[kMost];
      TUTTI_UNROLL
      for (int u = 0; u < kMost; ++u) loaded[u] = load(at + u * kSide);
      TUTTI_UNROLL
      for (int u = 0; u < kMost; ++u) store(at + u * kSide, loaded[u]);
    }
    done = runs * (kMost * kSide);
  }
  TUTTI_NO_UNROLL
  for (std::size_t at = done + thread; at < units; at += threads) store(at, load(at));
}

/// The elements that a pass takes one by one, before and after its units.
template <class Element>
TUTTI_HD inline void edges(std::size_t thread, std::size_t threads, std::size_t head, std::size_t inside,
                           std::size_t count, const Element& element) {
  TUTTI_NO_UNROLL
  for (std::size_t i = thread; i < count - inside; i += threads) element(i < head ? i : i + inside);
}

/// How a pass splits into units of `each` elements, which begin where a unit of the one buffer is aligned as a whole.
/// If the other one's packs are not aligned then, those before and after the units are inside, too.
struct PassSplit {
  std::size_t head = 0;   ///< elements before the first unit
  std::size_t units = 0;  ///< 0: all elements are taken one by one

  TUTTI_HD static PassSplit of(std::size_t count, std::size_t each, const void* aligned, std::size_t element,
                               const void* other, std::size_t other_element) {
    const std::size_t before = (0 - reinterpret_cast<std::uintptr_t>(aligned)) % (each * element);
    const std::size_t head = before / element;
    if (before % element != 0 || count <= head) return {count, 0};
    const std::size_t units = (count - head) / each;
    const bool is_shifted = (reinterpret_cast<std::uintptr_t>(other) + head * other_element) % sizeof(Pack) != 0;
    if (!is_shifted) return {head, units};
    return units > 2 ? PassSplit{head + each, units - 2} : PassSplit{count, 0};
  }
};

template <class Format, class Op>
TUTTI_HD inline void scale(std::size_t thread, std::size_t threads, const DevicePass& pass) {
  using Storage = typename Format::Storage;
  Storage factor;
  __builtin_memcpy(&factor, pass.scalar != nullptr ? pass.scalar : &pass.value, sizeof(Storage));
  Storage copies[kElements<Storage>];
  TUTTI_UNROLL
  for (Storage& copy : copies) copy = factor;
  Pack all;
  __builtin_memcpy(&all, copies, sizeof(Pack));
  PackLanes<Format> right;
  right.widen(all);
  const PassSplit split =
      PassSplit::of(pass.count, kElements<Storage>, pass.destination, sizeof(Storage), pass.source, sizeof(Storage));
  const auto* const from = static_cast<const unsigned char*>(pass.source) + split.head * sizeof(Storage);
  auto* const to = static_cast<unsigned char*>(pass.destination) + split.head * sizeof(Storage);
  sweep<4>(
      thread, threads, split.units, [&](std::size_t at) { return load_pack_anywhere(from + at * sizeof(Pack)); },
      [&](std::size_t at, const Pack& pack) {
        PackLanes<Format> lanes;
        lanes.widen(pack);
        lanes.template combine<Op>(right);
        store_pack(to + at * sizeof(Pack), lanes.narrow());
      });
  edges(thread, threads, split.head, split.units * kElements<Storage>, pass.count, [&](std::size_t i) {
    const Storage left = load_element<Storage>(pass.source, i);
    store_element<Storage>(pass.destination, i, Format::narrow(Op::apply(Format::widen(left), Format::widen(factor))));
  });
}

/// Called for each pair of a list: scales by the product's, since a product is what scaling does to an element.
struct Scaler {
  std::size_t thread;
  std::size_t threads;
  const DevicePass& pass;

  template <class Format, class Op>
  TUTTI_HD void add(DataType type, RedOp op) const {
    if (type == pass.type && op == RedOp::kProd) scale<Format, Op>(thread, threads, pass);
  }
};

/// Four small floats, which a thread moves as one or two words.
template <class Codec>
struct SmallFour {
  static constexpr int kWords = sizeof(typename Codec::Storage);
  static constexpr int kInWord = 4 / kWords;
  std::uint32_t words[kWords];

  TUTTI_HD static SmallFour of(const Pack& floats) {
    float lanes[4];
    __builtin_memcpy(lanes, &floats, sizeof(Pack));
    SmallFour four;
    TUTTI_UNROLL
    for (int w = 0; w < kWords; ++w) four.words[w] = Conversion<Codec>::narrow(lanes + w * kInWord);
    return four;
  }
  TUTTI_HD Pack wide() const {
    float lanes[4];
    TUTTI_UNROLL
    for (int w = 0; w < kWords; ++w) Conversion<Codec>::widen(words[w], lanes + w * kInWord);
    TUTTI_UNROLL
    for (float& lane : lanes) lane = portable::Real<float>::narrow(lane);  // for the one NaN
    Pack floats;
    __builtin_memcpy(&floats, lanes, sizeof(Pack));
    return floats;
  }
  TUTTI_HD static SmallFour load(const unsigned char* address) {
    assume_global(address);
    SmallFour four;
    __builtin_memcpy(&four, __builtin_assume_aligned(address, sizeof four), sizeof four);
    return four;
  }
  TUTTI_HD void store(unsigned char* address) const {
    assume_global(address);
    __builtin_memcpy(__builtin_assume_aligned(address, sizeof(SmallFour)), this, sizeof(SmallFour));
  }
};

template <class Codec>
TUTTI_HD inline void narrow(std::size_t thread, std::size_t threads, const DevicePass& pass) {
  using Storage = typename Codec::Storage;
  using Four = SmallFour<Codec>;
  const PassSplit split = PassSplit::of(pass.count, 4, pass.destination, sizeof(Storage), pass.source, sizeof(float));
  const auto* const from = static_cast<const unsigned char*>(pass.source) + split.head * sizeof(float);
  auto* const to = static_cast<unsigned char*>(pass.destination) + split.head * sizeof(Storage);
  sweep<4>(
      thread, threads, split.units, [&](std::size_t at) { return load_pack_anywhere(from + at * sizeof(Pack)); },
      [&](std::size_t at, const Pack& floats) { Four::of(floats).store(to + at * sizeof(Four)); });
  edges(thread, threads, split.head, split.units * 4, pass.count, [&](std::size_t i) {
    const float wide = load_element<float>(pass.source, i);
    store_element<Storage>(pass.destination, i, portable::Widened<Codec>::narrow(wide));
  });
}

template <class Codec>
TUTTI_HD inline void widen(std::size_t thread, std::size_t threads, const DevicePass& pass) {
  using Storage = typename Codec::Storage;
  using Four = SmallFour<Codec>;
  const PassSplit split = PassSplit::of(pass.count, 4, pass.source, sizeof(Storage), pass.destination, sizeof(float));
  const auto* const from = static_cast<const unsigned char*>(pass.source) + split.head * sizeof(Storage);
  auto* const to = static_cast<unsigned char*>(pass.destination) + split.head * sizeof(float);
  sweep<4>(
      thread, threads, split.units, [&](std::size_t at) { return Four::load(from + at * sizeof(Four)); },
      [&](std::size_t at, const Four& four) { store_pack_anywhere(to + at * sizeof(Pack), four.wide()); });
  edges(thread, threads, split.head, split.units * 4, pass.count, [&](std::size_t i) {
    const float wide = portable::Widened<Codec>::widen(load_element<Storage>(pass.source, i));
    store_element<float>(pass.destination, i, portable::Real<float>::narrow(wide));  // for the one NaN
  });
}

template <class Codec>
TUTTI_HD inline void convert(std::size_t thread, std::size_t threads, const DevicePass& pass) {
  if (pass.kind == DevicePass::Kind::kNarrow) return narrow<Codec>(thread, threads, pass);
  widen<Codec>(thread, threads, pass);
}

/// The part of one thread of the grid.
TUTTI_HD inline void run_pass(std::size_t thread, std::size_t threads, const DevicePass& pass) {
  if (pass.kind == DevicePass::Kind::kScale) {
    const Scaler scaler{thread, threads, pass};
    portable::list_reductions(scaler);
    return;
  }
  switch (pass.type) {
    case DataType::kFloat16:
      return convert<portable::HalfCodec>(thread, threads, pass);
    case DataType::kBfloat16:
      return convert<portable::BrainCodec>(thread, threads, pass);
    case DataType::kFloat8e4m3:
      return convert<portable::Float8e4m3Codec>(thread, threads, pass);
    case DataType::kFloat8e5m2:
      return convert<portable::Float8e5m2Codec>(thread, threads, pass);
    default:
      return;  // no wire type
  }
}

}  // namespace device
}  // namespace tutti
