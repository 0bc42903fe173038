// An array that takes memory only for what is used of it.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <type_traits>
#include <vector>

namespace tutti {

/// `size` elements, all bytes of which are zero, which has to be what T{} is. Of a large array each page takes memory
/// once it is touched.
/// Throws std::bad_alloc. Thread-safe as an array is.
template <class T>
class ZeroedArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  explicit ZeroedArray(std::size_t size) : bytes_(size * sizeof(T)) {
    if (bytes_ < kLarge) {
      small_.resize(size);
      elements_ = small_.data();
      return;
    }
    void* const memory =
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    elements_ = static_cast<T*>(memory);
  }
  ~ZeroedArray() {
    if (bytes_ >= kLarge) ::munmap(elements_, bytes_);
  }
  ZeroedArray(const ZeroedArray&) = delete;
  ZeroedArray& operator=(const ZeroedArray&) = delete;

  T& operator[](std::size_t index) { return elements_[index]; }
  const T& operator[](std::size_t index) const { return elements_[index]; }

 private:
  static constexpr std::size_t kLarge = 256 * 1024;

  const std::size_t bytes_;
  std::vector<T> small_;
  T* elements_ = nullptr;
};

}  // namespace tutti
