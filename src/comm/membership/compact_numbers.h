// A list of numbers that takes little memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti {

/// Each number takes as many bytes as the largest one needs, which is none if all are zero. It never changes, so any
/// thread may read it.
class CompactNumbers {
 public:
  CompactNumbers() = default;
  explicit CompactNumbers(const std::vector<std::uint32_t>& numbers);

  std::size_t size() const { return size_; }
  std::uint32_t operator[](std::size_t index) const {
    std::uint32_t number = 0;
    for (std::size_t i = width_; i-- > 0;) number = number << 8 | bytes_[index * width_ + i];
    return number;
  }

 private:
  std::size_t size_ = 0;
  std::size_t width_ = 0;
  std::vector<std::uint8_t> bytes_;  // the lowest byte of a number comes first
};

}  // namespace tutti
