// Memory that a test shares with the processes that it forks.
#pragma once

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace tutti::test {

/// A T that is made before the processes are, and outlives them. It has no pointers: its constructor runs here.
template <class T>
class SharedMemory {
 public:
  SharedMemory() : value_(::new (map()) T{}) {}
  ~SharedMemory() { ::munmap(value_, sizeof(T)); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  T& operator*() const { return *value_; }
  T* operator->() const { return value_; }
  /// As at first. No process uses it meanwhile.
  void reset() { value_ = ::new (value_) T{}; }

 private:
  static void* map() {
    void* const memory = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    return memory;
  }

  T* value_;
};

}  // namespace tutti::test
