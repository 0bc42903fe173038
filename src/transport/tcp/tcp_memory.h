// Memory of tcp links: slots for messages, made when they are first needed.
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

/// At least `bytes`, aligned to lines. Never null: where there is none the process cannot go on anyway.
LineMemory make_line_memory(std::size_t bytes);

/// Room for one message at a time. Small messages have memory of their own, so that a link that only carries those
/// stays small.
class TcpSlot {
 public:
  static constexpr std::size_t kSmall = 4096;
  /// In front of data(), within the same memory.
  static constexpr std::size_t kHeadroom = kCacheLine;

  /// Memory for a message of `bytes` <= `most`, with a line of headroom before it; stays where it is until a larger one
  /// is asked for.
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
