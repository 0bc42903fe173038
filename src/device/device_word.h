// Loads and stores of words that kernels share with kernels of other ranks and with the host. On the device they are in
// the terms of PTX's memory model, on the host std::atomic_ref, so that the thread sanitizer checks on the host the
// order that the device relies on.
#pragma once

#include <cstdint>

#include "core/units.h"

#if !defined(__CUDA_ARCH__)
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#endif

namespace tutti {

/// 16 bytes that travel in one access. Each of the two words is read and written whole, so what a word's upper half
/// says of its lower half needs no order.
struct alignas(16) WordPair {
  std::uint64_t first;
  std::uint64_t second;
};

// `wide` says that the partner may run on another device or on the host; else it runs on this device, which is cheaper.

TUTTI_HD inline std::uint64_t load_acquire(const std::uint64_t* word, [[maybe_unused]] bool wide) {
#if defined(__CUDA_ARCH__)
  std::uint64_t value;
  if (wide) {
    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  } else {
    asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  }
  return value;
#else
  return std::atomic_ref(*const_cast<std::uint64_t*>(word)).load(std::memory_order_acquire);
#endif
}

TUTTI_HD inline void store_release(std::uint64_t* word, std::uint64_t value, [[maybe_unused]] bool wide) {
#if defined(__CUDA_ARCH__)
  if (wide) {
    asm volatile("st.release.sys.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
  } else {
    asm volatile("st.release.gpu.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
  }
#else
  std::atomic_ref(*word).store(value, std::memory_order_release);
#endif
}

TUTTI_HD inline std::uint64_t load_relaxed(const std::uint64_t* word) {
#if defined(__CUDA_ARCH__)
  std::uint64_t value;
  asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
#else
  return std::atomic_ref(*const_cast<std::uint64_t*>(word)).load(std::memory_order_relaxed);
#endif
}

TUTTI_HD inline void store_relaxed(std::uint64_t* word, std::uint64_t value) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.relaxed.sys.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
#else
  std::atomic_ref(*word).store(value, std::memory_order_relaxed);
#endif
}

TUTTI_HD inline WordPair load_pair(const WordPair* pair) {
#if defined(__CUDA_ARCH__)
  WordPair value;
  asm volatile("ld.relaxed.sys.v2.u64 {%0, %1}, [%2];" : "=l"(value.first), "=l"(value.second) : "l"(pair) : "memory");
  return value;
#else
  return WordPair{load_relaxed(&pair->first), load_relaxed(&pair->second)};
#endif
}

TUTTI_HD inline void store_pair(WordPair* pair, WordPair value) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.relaxed.sys.v2.u64 [%0], {%1, %2};" : : "l"(pair), "l"(value.first), "l"(value.second) : "memory");
#else
  store_relaxed(&pair->first, value.first);
  store_relaxed(&pair->second, value.second);
#endif
}

// Stores that land in the memory of several devices. `word` is an address of a multicast object, which nothing but such
// stores may use. Devices before sm_90 have no such addresses.

TUTTI_HD inline void multicast_relaxed([[maybe_unused]] std::uint64_t* word, [[maybe_unused]] std::uint64_t value) {
#if !defined(__CUDA_ARCH__)
  store_relaxed(word, value);
#elif __CUDA_ARCH__ >= 900
  asm volatile("multimem.st.relaxed.sys.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
#else
  asm volatile("trap;");
#endif
}

TUTTI_HD inline void multicast_release([[maybe_unused]] std::uint64_t* word, [[maybe_unused]] std::uint64_t value) {
#if !defined(__CUDA_ARCH__)
  store_release(word, value, true);
#elif __CUDA_ARCH__ >= 900
  asm volatile("multimem.st.release.sys.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
#else
  asm volatile("trap;");
#endif
}

/// Orders what this thread knows to have been done to memory by one address before what it does to that memory by
/// another address. PTX orders the two only by such a fence.
TUTTI_HD inline void alias_fence() {
#if defined(__CUDA_ARCH__)
  asm volatile("fence.proxy.alias;" : : : "memory");
#endif
}

/// Nanoseconds of a clock that runs on; its start has no meaning.
TUTTI_HD inline std::uint64_t device_clock() {
#if defined(__CUDA_ARCH__)
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
#else
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
#endif
}

/// Called after `looks` looks at a word that found nothing. On the host it gives the core away, because ranks share
/// cores there. It sleeps if the wait is long, and longer each time, because a hundred threads that yield or wake up
/// keep everybody else from a core.
TUTTI_HD inline void device_pause([[maybe_unused]] std::uint32_t looks) {
#if !defined(__CUDA_ARCH__)
  constexpr std::uint32_t kYields = 20, kNapsPerLength = 4, kMostDoublings = 5;
  if (looks < kYields) return std::this_thread::yield();
  const std::uint32_t doublings = std::min((looks - kYields) / kNapsPerLength, kMostDoublings);
  std::this_thread::sleep_for(std::chrono::microseconds{50} * (1U << doublings));
#endif
}

}  // namespace tutti
