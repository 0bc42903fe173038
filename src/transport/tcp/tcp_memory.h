// Memory of tcp links: slots for messages, allocated when they are first needed.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "core/units.h"

namespace tutti {

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using LineMemory = std::unique_ptr<std::byte[], FreeMemory>;

/// Returns at least `bytes` of memory, aligned to lines. Throws std::bad_alloc if there is none.
LineMemory make_line_memory(std::size_t bytes);

/// Room for one message at a time. Small messages have memory of their own, so that a link that only carries those
/// stays small.
class TcpSlot {
 public:
  static constexpr std::size_t kSmall = 4096;
  /// Room in front of the message, within the same memory.
  static constexpr std::size_t kHeadroom = kCacheLine;

  /// Returns memory for a message of `bytes` <= `most`, with a line of headroom in front of it. It stays where it is
  /// until more is asked for.
  std::byte* room(std::size_t bytes, std::size_t most) {
    if (!memory_ || bytes > capacity_) [[unlikely]]
      grow(bytes <= kSmall ? kSmall : most);
    return memory_.get() + kHeadroom;
  }
  std::size_t capacity() const { return capacity_; }

 private:
  void grow(std::size_t capacity) {
    memory_ = make_line_memory(kHeadroom + capacity);
    capacity_ = capacity;
  }
  LineMemory memory_;
  std::size_t capacity_ = 0;
};

}  // namespace tutti
