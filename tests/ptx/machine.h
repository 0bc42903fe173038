// What translated PTX runs on: the functions that instructions become, and the thread that executes them. What an
// instruction does is said after the PTX manual, independently of the library's own arithmetic.
//
// Memory is the host's. Accesses without an order are plain, so that the thread sanitizer looks for races of the
// device's code; accesses with one are those of std::atomic_ref. What a device would trap on (an address that is not
// aligned, one outside of its space) ends the process with a message.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ptx/conversions.h"

#if defined(__SANITIZE_THREAD__)
#define TUTTI_NOT_WATCHED __attribute__((no_sanitize("thread")))
#else
#define TUTTI_NOT_WATCHED
#endif

namespace tutti::ptx {

using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

class Thread;

/// A translated kernel. The parameter is what a launch is given, in the layout that both compilers agree on.
struct Kernel {
  const char* name;  ///< as the PTX names it
  void (*run)(Thread& thread, std::byte* parameter);
  unsigned threads;        ///< of a block
  std::size_t shared_end;  ///< the place after the block's shared memory, 0 if it has none
  std::size_t parameter_size;
};
struct Module {
  std::span<const Kernel> kernels;
};

/// Where shared memory begins in its space.
inline constexpr u32 kSharedBegin = 1024;

[[noreturn]] void fault(const char* what);

inline u32 bits(f32 value) { return std::bit_cast<u32>(value); }
inline u64 bits(f64 value) { return std::bit_cast<u64>(value); }
inline f32 real(u32 value) { return std::bit_cast<f32>(value); }
inline f64 real(u64 value) { return std::bit_cast<f64>(value); }
/// The result of arithmetic. A device has one NaN of 32 bits.
inline f32 number(f32 value) { return value == value ? value : real(u32{0x7fffffff}); }
inline f64 number(f64 value) { return value; }

inline u64 address(std::byte* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

/// By so many bits or more, nothing but the sign is left.
template <class T>
T shift_left(T value, u32 by) {
  return by < 8 * sizeof(T) ? static_cast<T>(static_cast<u64>(value) << by) : T{0};
}
template <class T>
T shift_right(T value, u32 by) {
  return static_cast<T>(value >> std::min<u32>(by, 8 * sizeof(T) - 1) >> (by < 8 * sizeof(T) ? 0 : 1));
}

/// Each bit of the result is the bit of the table that the three bits choose.
template <int kTable>
u32 any_logic(u32 a, u32 b, u32 c) {
  u32 result = 0;
  for (int i = 0; i < 8; ++i) {
    if ((kTable >> i & 1) == 0) continue;
    result |= ((i & 4) != 0 ? a : ~a) & ((i & 2) != 0 ? b : ~b) & ((i & 1) != 0 ? c : ~c);
  }
  return result;
}

/// Each byte is one of eight, or its sign eight times.
inline u32 permute(u32 low, u32 high, u32 selector) {
  const u64 bytes = u64{high} << 32 | low;
  u32 result = 0;
  for (u32 i = 0; i < 4; ++i) {
    const u32 choice = selector >> (4 * i);
    const u32 byte = static_cast<u32>(bytes >> (8 * (choice & 7))) & 0xff;
    result |= ((choice & 8) == 0 ? byte : (byte & 0x80) != 0 ? 0xffu : 0u) << (8 * i);
  }
  return result;
}

/// The lowest bits of `field` in place of those of `into`.
template <class T>
T insert(T field, T into, u32 position, u32 length) {
  position &= 0xff;
  length &= 0xff;
  const T mask = shift_left(shift_left<T>(1, length) - T{1}, position);
  return (into & ~mask) | (shift_left(field, position) & mask);
}

template <class T>
u32 min_fields(u32 a, u32 b) {
  const T low = std::min(static_cast<T>(a), static_cast<T>(b));
  const T high = std::min(static_cast<T>(a >> 16), static_cast<T>(b >> 16));
  return u32{static_cast<u16>(high)} << 16 | static_cast<u16>(low);
}
template <class T>
u32 max_fields(u32 a, u32 b) {
  const T low = std::max(static_cast<T>(a), static_cast<T>(b));
  const T high = std::max(static_cast<T>(a >> 16), static_cast<T>(b >> 16));
  return u32{static_cast<u16>(high)} << 16 | static_cast<u16>(low);
}

template <class T, int kCount>
using Values = std::array<T, kCount>;

template <class T, int kCount>
Values<T, kCount> read_values(const std::byte* from) {
  Values<T, kCount> values;
  for (int i = 0; i < kCount; ++i) values[i] = reinterpret_cast<const T*>(from)[i];
  return values;
}
template <class T, int kCount>
void write_values(std::byte* to, const Values<T, kCount>& values) {
  for (int i = 0; i < kCount; ++i) reinterpret_cast<T*>(to)[i] = values[i];
}

inline std::byte* aligned(u64 where, std::size_t size) {
  if (where % size != 0) fault("an access whose address is not a multiple of its size");
  return reinterpret_cast<std::byte*>(where);
}
/// Memory of the thread's own: parameters and local variables.
template <class T, int kCount>
Values<T, kCount> own_load(u64 where) {
  return read_values<T, kCount>(aligned(where, sizeof(T) * kCount));
}
template <class T, int kCount>
void own_store(u64 where, const Values<T, kCount>& values) {
  write_values<T, kCount>(aligned(where, sizeof(T) * kCount), values);
}

class Fiber;

/// One thread of a launch.
class Thread {
 public:
  Thread(Fiber* fiber, u32 tid, u32 ctaid, u32 nctaid) : fiber_(fiber), tid_(tid), ctaid_(ctaid), nctaid_(nctaid) {}

  u32 tid() const { return tid_; }
  u32 ctaid() const { return ctaid_; }
  u32 nctaid() const { return nctaid_; }
  u64 globaltimer() const;

  // The barriers of the block.
  void sync() { any(false); }
  bool any(bool mine);

  // Between places in shared memory and addresses.
  u64 from_shared(u64 place) const;
  u64 to_shared(u64 where) const;

  template <class T, int kCount>
  Values<T, kCount> generic_load(u64 where) {
    return own_load<T, kCount>(where);
  }
  template <class T, int kCount>
  void generic_store(u64 where, const Values<T, kCount>& values) {
    own_store<T, kCount>(where, values);
  }
  template <class T, int kCount>
  Values<T, kCount> global_load(u64 where) {
    return read_values<T, kCount>(global(where, sizeof(T) * kCount));
  }
  template <class T, int kCount>
  void global_store(u64 where, const Values<T, kCount>& values) {
    write_values<T, kCount>(global(where, sizeof(T) * kCount), values);
  }
  template <class T, int kCount>
  Values<T, kCount> shared_load(u32 place) {
    return read_values<T, kCount>(shared(place, sizeof(T) * kCount));
  }
  /// A load whose value may be dropped: where it is used, shared_load() follows. The thread sanitizer does not see it.
  template <class T, int kCount>
  TUTTI_NOT_WATCHED Values<T, kCount> shared_peek(u32 place) {
    const T* const from = reinterpret_cast<const T*>(shared(place, sizeof(T) * kCount));
    Values<T, kCount> values;
    for (int i = 0; i < kCount; ++i) values[i] = from[i];
    return values;
  }
  template <class T, int kCount>
  void shared_store(u32 place, const Values<T, kCount>& values) {
    write_values<T, kCount>(shared(place, sizeof(T) * kCount), values);
  }

  // Words that threads of several blocks, ranks or devices share, whatever the scope. A pair is two words, each of them
  // whole.
  template <int kCount>
  Values<u64, kCount> relaxed_load(u64 where) {
    return ordered_load<kCount>(where, std::memory_order_relaxed);
  }
  template <int kCount>
  Values<u64, kCount> acquire_load(u64 where) {
    return ordered_load<kCount>(where, std::memory_order_acquire);
  }
  template <int kCount>
  void relaxed_store(u64 where, const Values<u64, kCount>& values) {
    ordered_store<kCount>(where, values, std::memory_order_relaxed);
  }
  template <int kCount>
  void release_store(u64 where, const Values<u64, kCount>& values) {
    ordered_store<kCount>(where, values, std::memory_order_release);
  }
  /// One memory has one address here, so there is nothing to order.
  void alias_fence() {}

  template <class T>
  T divide(T left, T right) const {
    if (right == 0) fault("a division by zero");
    return right == static_cast<T>(-1) && std::is_signed_v<T> ? static_cast<T>(u64{0} - static_cast<u64>(left))
                                                              : static_cast<T>(left / right);
  }
  template <class T>
  T remainder(T left, T right) const {
    if (right == 0) fault("a division by zero");
    return right == static_cast<T>(-1) && std::is_signed_v<T> ? T{0} : static_cast<T>(left % right);
  }

 private:
  template <int kCount>
  Values<u64, kCount> ordered_load(u64 where, std::memory_order order) {
    auto* const words = reinterpret_cast<u64*>(global(where, sizeof(u64) * kCount));
    look();
    Values<u64, kCount> values;
    for (int i = 0; i < kCount; ++i) values[i] = std::atomic_ref(words[i]).load(order);
    return values;
  }
  template <int kCount>
  void ordered_store(u64 where, const Values<u64, kCount>& values, std::memory_order order) {
    auto* const words = reinterpret_cast<u64*>(global(where, sizeof(u64) * kCount));
    for (int i = 0; i < kCount; ++i) std::atomic_ref(words[i]).store(values[i], order);
  }

  /// Lets others run, who may be those that this thread waits for.
  void look();
  std::byte* global(u64 where, std::size_t size) const;
  std::byte* shared(u32 place, std::size_t size) const;

  Fiber* fiber_;
  u32 tid_;
  u32 ctaid_;
  u32 nctaid_;
};

}  // namespace tutti::ptx
