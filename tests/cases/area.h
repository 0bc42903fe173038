// Memory of the cases: placed at any byte, with margins that must stay as they are, filled from repeated patterns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cases/element.h"

namespace tutti::cases {

inline constexpr unsigned char kUnwritten = 0xE7;

/// `bytes` of memory that begin `shift` bytes after a 64-byte boundary.
class Area {
 public:
  Area(std::size_t bytes, std::size_t shift) : store_(bytes + shift + 2 * kMargin + 64, kUnwritten), bytes_(bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(store_.data());
    offset_ = (64 - address % 64) % 64 + kMargin + shift;
  }
  unsigned char* data() { return store_.data() + offset_; }
  std::size_t size() const { return bytes_; }
  /// Whether the memory is `image` and the margins are untouched.
  bool is(const Bytes& image) const {
    const auto untouched = [](unsigned char byte) { return byte == kUnwritten; };
    const auto begin = store_.begin() + static_cast<std::ptrdiff_t>(offset_);
    const auto end = begin + static_cast<std::ptrdiff_t>(bytes_);
    return std::equal(begin, end, image.begin(), image.end()) && std::all_of(store_.begin(), begin, untouched) &&
           std::all_of(end, store_.end(), untouched);
  }

 private:
  static constexpr std::size_t kMargin = 64;
  Bytes store_;
  std::size_t bytes_;
  std::size_t offset_ = 0;
};

/// Bytes [first, first + bytes) of the repeated pattern go to `to`.
inline void put(unsigned char* to, const Bytes& pattern, std::size_t first, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t from = (first + done) % pattern.size();
    const std::size_t length = std::min(pattern.size() - from, bytes - done);
    std::copy_n(pattern.begin() + static_cast<std::ptrdiff_t>(from), length, to + done);
    done += length;
  }
}

}  // namespace tutti::cases
