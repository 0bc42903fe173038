// Values and vectors of values under one notation, so that the arithmetic is written once. GCC's vector extension
// gives vectors the operators of their lanes and `?:` by lane; g++ and clang both compile it for every instruction set.
//
// Files that include this are compiled once per instruction set with different flags. Everything therefore lives in
// the namespace TUTTI_ISA, which differs per instruction set, and is inlined by force: no function compiled with AVX
// flags can be picked by the linker for a caller that runs without AVX.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/units.h"

#ifndef TUTTI_ISA
#define TUTTI_ISA portable
#endif
#define TUTTI_INLINE TUTTI_HD __attribute__((always_inline)) inline

namespace tutti::TUTTI_ISA {

template <class T, int kCount>
struct VectorType {
  static_assert(std::is_arithmetic_v<T> && (kCount & (kCount - 1)) == 0);
  typedef T Type __attribute__((vector_size(sizeof(T) * kCount)));
  typedef T Anywhere __attribute__((vector_size(sizeof(T) * kCount), aligned(1), may_alias));
};
/// `kCount` values of type T.
template <class T, int kCount>
using Vec = typename VectorType<T, kCount>::Type;

/// What a lane of V is: T for a vector of T and for T itself.
template <class V, bool kScalar = std::is_arithmetic_v<V>>
struct Shape {
  using Lane = std::remove_cv_t<std::remove_reference_t<decltype(std::declval<V&>()[0])>>;
  static constexpr int kLanes = sizeof(V) / sizeof(Lane);
  template <class T>
  using With = Vec<T, kLanes>;
};
template <class V>
struct Shape<V, true> {
  using Lane = V;
  static constexpr int kLanes = 1;
  template <class T>
  using With = T;
};
/// V with lanes of type T: as many as V has.
template <class T, class V>
using With = typename Shape<V>::template With<T>;

/// Every lane converted to T, as static_cast does.
template <class T, class V>
TUTTI_INLINE With<T, V> convert(V value) {
  if constexpr (std::is_arithmetic_v<V>) {
    return static_cast<T>(value);
  } else {
    return __builtin_convertvector(value, With<T, V>);
  }
}

/// Every lane's bits read as T, which has the lanes' size.
template <class T, class V>
TUTTI_INLINE With<T, V> bits_as(V value) {
  static_assert(sizeof(T) == sizeof(typename Shape<V>::Lane));
  return __builtin_bit_cast(With<T, V>, value);
}

/// The first bytes of a wider vector, or a wider vector that begins with these bytes.
template <class To, class From>
TUTTI_INLINE To resize(From from) {
  To to = {};
  __builtin_memcpy(&to, &from, sizeof(To) < sizeof(From) ? sizeof(To) : sizeof(From));
  return to;
}

/// Every lane equal to `value`; V{} + value would lose the sign of -0.
template <class V>
TUTTI_INLINE V broadcast(typename Shape<V>::Lane value) {
  if constexpr (std::is_arithmetic_v<V>) {
    return value;
  } else {
    V lanes = {};
    for (int i = 0; i < Shape<V>::kLanes; ++i) lanes[i] = value;
    return lanes;
  }
}

/// Loads and stores at any address.
template <class V>
TUTTI_INLINE V load_from(const void* address) {
  using Anywhere = typename VectorType<typename Shape<V>::Lane, Shape<V>::kLanes>::Anywhere;
  return *static_cast<const Anywhere*>(address);
}
template <class V>
TUTTI_INLINE void store_to(void* address, V value) {
  using Anywhere = typename VectorType<typename Shape<V>::Lane, Shape<V>::kLanes>::Anywhere;
  *static_cast<Anywhere*>(address) = value;
}

template <class T>
TUTTI_INLINE T load_value(const void* address) {
  T value;
  __builtin_memcpy(&value, address, sizeof(T));
  return value;
}

}  // namespace tutti::TUTTI_ISA
