// One pass over memory that turns every element of one buffer into an element of another: scaling and conversions.
//
// As in reduction.h there is no scalar tail: the last vector is computed first and stored last, over lanes that hold
// the same values already, so that the pass is right in place.
#pragma once

#include "kernels/arithmetic.h"
#include "kernels/stream_store.h"

namespace tutti::TUTTI_ISA {

/// `Function` has types In, Out and Lane (the widest it computes with) and apply(), for a value or a vector of In.
template <class Function>
class Mapping {
 public:
  static void run(const Function& function, void* destination, const void* source, std::size_t count, bool stream) {
    const Mapping pass(function, destination, source, count);
    if (count < kLanes) return pass.template cover<kLanes / 2>();
    pass.sweep(stream && reinterpret_cast<std::uintptr_t>(destination) % sizeof(Result<kLanes>) == 0);
  }

 private:
  using In = typename Function::In;
  using Out = typename Function::Out;
  static constexpr std::size_t kLanes = kVectorBytes / sizeof(typename Function::Lane);
  static constexpr std::size_t kUnroll = 4;
  static constexpr std::size_t kBlock = kUnroll * kLanes;
  template <int kCount>
  using Result = Vec<Out, kCount>;

  TUTTI_INLINE Mapping(const Function& function, void* destination, const void* source, std::size_t count)
      : function_(function),
        destination_(static_cast<Out*>(destination)),
        source_(static_cast<const In*>(source)),
        count_(count) {}

  template <int kCount>
  TUTTI_INLINE Result<kCount> value(std::size_t at) const {
    return function_.apply(load_from<Vec<In, kCount>>(source_ + at));
  }

  /// Two vectors that overlap, as wide as the buffer allows but at most kCount lanes.
  template <int kCount>
  TUTTI_INLINE void cover() const {
    if constexpr (kCount > 0) {
      if (count_ < kCount) return cover<kCount / 2>();
      const std::size_t last = count_ - kCount;
      const auto head = value<kCount>(0);
      const auto tail = value<kCount>(last);
      store_to(destination_, head);
      store_to(destination_ + last, tail);
    }
  }

  TUTTI_INLINE void block(std::size_t at, bool stream) const {
    Result<kLanes> results[kUnroll];
    for (std::size_t u = 0; u < kUnroll; ++u) results[u] = value<kLanes>(at + u * kLanes);
    if (stream) {
      for (std::size_t u = 0; u < kUnroll; ++u) stream_to(destination_ + at + u * kLanes, results[u]);
    } else {
      for (std::size_t u = 0; u < kUnroll; ++u) store_to(destination_ + at + u * kLanes, results[u]);
    }
  }

  TUTTI_INLINE void sweep(bool stream) const {
    const std::size_t last = count_ - kLanes;
    const auto tail = value<kLanes>(last);
    std::size_t at = 0;
    for (; at + kBlock <= count_; at += kBlock) block(at, stream);
    if (stream) stream_fence();
    for (; at + kLanes <= count_; at += kLanes) store_to(destination_ + at, value<kLanes>(at));
    store_to(destination_ + last, tail);
  }

  const Function function_;
  Out* destination_;
  const In* source_;
  std::size_t count_;
};

/// Every element combined with one scalar.
template <class Format, class Op>
struct Scaling {
  using In = typename Format::Storage;
  using Out = In;
  using Lane = typename Format::Lane;
  Lane scalar;

  template <class V>
  TUTTI_INLINE V apply(V stored) const {
    return Format::narrow(Op::apply(Format::widen(stored), broadcast<With<Lane, V>>(scalar)));
  }
  static void run(void* destination, const void* source, std::size_t count, const void* scalar) {
    const Scaling scaling{Format::widen(load_value<In>(scalar))};
    Mapping<Scaling>::run(scaling, destination, source, count, false);
  }
};

/// float to a smaller float type.
template <class Codec>
struct Narrowing {
  using In = float;
  using Out = typename Codec::Storage;
  using Lane = float;

  template <class V>
  TUTTI_INLINE static With<Out, V> apply(V value) {
    return Codec::narrow(value);
  }
  static void run(void* destination, const float* source, std::size_t count) {
    Mapping<Narrowing>::run({}, destination, source, count, false);
  }
};

/// A smaller float type to float.
template <class Codec>
struct Widening {
  using In = typename Codec::Storage;
  using Out = float;
  using Lane = float;

  template <class V>
  TUTTI_INLINE static With<float, V> apply(V stored) {
    return Real<float>::narrow(Codec::widen(stored));  // for the one NaN
  }
  static void run(float* destination, const void* source, std::size_t count, bool stream) {
    Mapping<Widening>::run({}, destination, source, count, stream);
  }
};

}  // namespace tutti::TUTTI_ISA
