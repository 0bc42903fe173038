// What each thread has of its own, for use until the end of the process.
#pragma once

#include <cstddef>
#include <new>
#include <utility>

namespace tutti {

/// The calling thread's T. Static destructors run after those of the thread, and may still call the library: so it is
/// emptied at the end of its thread, not destroyed. What is put in after that is never freed.
template <class T>
T& value_of_thread() {
  struct Emptying {
    T* value;
    ~Emptying() { (void)std::exchange(*value, T()); }
  };
  alignas(T) static thread_local std::byte memory[sizeof(T)];
  static thread_local T* const value = ::new (static_cast<void*>(memory)) T();
  static thread_local const Emptying emptying{value};
  return *emptying.value;
}

}  // namespace tutti
