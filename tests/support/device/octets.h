// Bytes in device or host memory that begin at any address, for tests of messages.
#pragma once

#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <cstddef>
#include <vector>

#include "support/device/stand_in_driver.h"

namespace tutti::test {

inline constexpr std::size_t kKibi = std::size_t{1} << 10;
inline constexpr std::size_t kMebi = std::size_t{1} << 20;

class Octets {
 public:
  /// They begin `offset` bytes after the beginning of an allocation.
  Octets(std::size_t count, bool on_device, int device, std::size_t offset = 0)
      : host_(on_device ? 0 : count + offset), count_(count), offset_(offset) {
    if (!on_device) return;
    const StandInDriver::Early early;
    EXPECT_EQ(tuttiMemAllocDevice(&memory_, count + offset + 1, device), tuttiSuccess);
  }
  ~Octets() {
    const StandInDriver::Early early;
    if (memory_ != nullptr) {
      EXPECT_EQ(tuttiMemFree(memory_), tuttiSuccess);
    }
  }
  Octets(const Octets&) = delete;
  Octets& operator=(const Octets&) = delete;

  std::size_t size() const { return count_; }
  /// For the library.
  std::byte* data() { return (memory_ != nullptr ? static_cast<std::byte*>(memory_) : host_.data()) + offset_; }
  /// For the test.
  std::byte* real() { return stand_in().reveal(data()); }

  /// The bytes of message `number`.
  void fill(std::size_t number) {
    std::byte* const bytes = real();
    for (std::size_t i = 0; i < count_; ++i) bytes[i] = value(number, i);
  }
  bool is(std::size_t number) { return is(number, count_); }
  /// The first `count` bytes are.
  bool is(std::size_t number, std::size_t count) {
    const std::byte* const bytes = real();
    for (std::size_t i = 0; i < count; ++i)
      if (bytes[i] != value(number, i)) return false;
    return true;
  }

 private:
  static std::byte value(std::size_t number, std::size_t i) {
    return static_cast<std::byte>(number * 131 + i * 7 + i / 251 + 1);
  }

  void* memory_ = nullptr;
  std::vector<std::byte> host_;
  std::size_t count_;
  std::size_t offset_;
};

}  // namespace tutti::test
