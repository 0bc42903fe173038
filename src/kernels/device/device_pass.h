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

template <class Format, class Op>
TUTTI_HD inline void scale(std::size_t thread, std::size_t threads, const DevicePass& pass) {
  using Storage = typename Format::Storage;
  Storage factor;
  __builtin_memcpy(&factor, pass.scalar != nullptr ? pass.scalar : &pass.value, sizeof(Storage));
  std::size_t done = 0;
  const auto places =
      reinterpret_cast<std::uintptr_t>(pass.source) | reinterpret_cast<std::uintptr_t>(pass.destination);
  if (places % sizeof(Pack) == 0) {
    Storage copies[kElements<Storage>];
    TUTTI_UNROLL
    for (Storage& copy : copies) copy = factor;
    Pack all;
    __builtin_memcpy(&all, copies, sizeof(Pack));
    PackLanes<Format> right;
    right.widen(all);
    const std::size_t packs = pass.count / kElements<Storage>;
    for (std::size_t p = thread; p < packs; p += threads) {
      PackLanes<Format> lanes;
      lanes.widen(load_pack(static_cast<const unsigned char*>(pass.source) + p * sizeof(Pack)));
      lanes.template combine<Op>(right);
      store_pack(static_cast<unsigned char*>(pass.destination) + p * sizeof(Pack), lanes.narrow());
    }
    done = packs * kElements<Storage>;
  }
  for (std::size_t i = done + thread; i < pass.count; i += threads) {
    const Storage left = load_element<Storage>(pass.source, i);
    store_element<Storage>(pass.destination, i, Format::narrow(Op::apply(Format::widen(left), Format::widen(factor))));
  }
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

template <class Codec>
TUTTI_HD inline void convert(std::size_t thread, std::size_t threads, const DevicePass& pass) {
  using Storage = typename Codec::Storage;
  using Format = portable::Widened<Codec>;
  for (std::size_t i = thread; i < pass.count; i += threads) {
    if (pass.kind == DevicePass::Kind::kNarrow) {
      store_element<Storage>(pass.destination, i, Format::narrow(load_element<float>(pass.source, i)));
    } else {
      const float wide = Format::widen(load_element<Storage>(pass.source, i));
      store_element<float>(pass.destination, i, portable::Real<float>::narrow(wide));  // for the one NaN
    }
  }
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
