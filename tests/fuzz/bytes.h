// What the fuzz targets share: an input taken apart from its front, and a check that stops the fuzzer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

namespace tutti::fuzz {

/// Ends the process, which the fuzzer takes for a find.
inline void demand(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

/// The bytes of one input. Past the end everything is zero or empty.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : left_(reinterpret_cast<const std::byte*>(data), size) {}
  std::uint8_t u8() {
    const auto one = take(1);
    return one.empty() ? 0 : std::to_integer<std::uint8_t>(one[0]);
  }
  std::size_t u16() {
    const std::size_t low = u8();
    return low | static_cast<std::size_t>(u8()) << 8;
  }
  std::span<const std::byte> take(std::size_t size) {
    const auto taken = left_.first(std::min(size, left_.size()));
    left_ = left_.subspan(taken.size());
    return taken;
  }
  std::span<const std::byte> rest() { return take(left_.size()); }
  std::string text() {
    const auto all = rest();
    return std::string(reinterpret_cast<const char*>(all.data()), all.size());
  }
  bool empty() const { return left_.empty(); }

 private:
  std::span<const std::byte> left_;
};

}  // namespace tutti::fuzz
