// Memory that shows what is written outside of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti {

/// A buffer of `bytes` bytes that starts `offset` bytes beyond a multiple of 64, with guards around it.
class Guarded {
 public:
  Guarded(std::size_t offset, std::size_t bytes)
      : bytes_(bytes), store_(kGuard + offset + bytes + kGuard + 64, kUntouched) {
    const std::size_t beyond = reinterpret_cast<std::uintptr_t>(store_.data()) % 64;
    start_ = kGuard + (beyond == 0 ? 0 : 64 - beyond) + offset;
  }
  unsigned char* data() { return store_.data() + start_; }
  bool guards_untouched() const {
    for (std::size_t i = 0; i < store_.size(); ++i) {
      if ((i < start_ || i >= start_ + bytes_) && store_[i] != kUntouched) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr unsigned char kUntouched = 0xa5;

  std::size_t bytes_;
  std::size_t start_ = 0;
  std::vector<unsigned char> store_;
};

}  // namespace tutti
