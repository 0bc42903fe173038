#include "comm/membership/compact_numbers.h"

#include <algorithm>
#include <bit>

namespace tutti {

CompactNumbers::CompactNumbers(const std::vector<std::uint32_t>& numbers) : size_(numbers.size()) {
  if (numbers.empty()) return;
  const auto bits = static_cast<std::size_t>(std::bit_width(*std::max_element(numbers.begin(), numbers.end())));
  width_ = (bits + 7) / 8;
  bytes_.reserve(size_ * width_);
  for (const std::uint32_t number : numbers)
    for (std::size_t i = 0; i < width_; ++i) bytes_.push_back(static_cast<std::uint8_t>(number >> 8 * i));
}

}  // namespace tutti
