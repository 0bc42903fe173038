// Memory of tcp links: slots for messages, allocated when they are first needed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

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

  TcpSlot() = default;
  TcpSlot(TcpSlot&& other) noexcept : memory_(std::move(other.memory_)), capacity_(std::exchange(other.capacity_, 0)) {}
  TcpSlot& operator=(TcpSlot&& other) noexcept {
    memory_ = std::move(other.memory_);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }

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

/// The slots that hold no message. The one that was given back last is taken first: its memory is most likely still in
/// a cache, and a link that never has many messages at a time needs few slots.
class FreeTcpSlots {
 public:
  /// `messages`: how many there may be at a time; `most`: the bytes of the largest.
  FreeTcpSlots(std::size_t messages, Bytes most) : most_(most) {
    for (std::vector<TcpSlot>& free : by_size_) free.reserve(messages);
  }
  /// Returns memory for a message of `bytes` in `slot`, as TcpSlot::room() does. A slot that has too little is
  /// exchanged.
  std::byte* room(TcpSlot* slot, std::size_t bytes) {
    if (slot->capacity() == 0 || slot->capacity() < bytes) {
      give_back(std::move(*slot));
      std::vector<TcpSlot>& free = of_size(bytes);
      if (!free.empty()) {
        *slot = std::move(free.back());
        free.pop_back();
      }
    }
    return slot->room(bytes, most_.value);
  }
  /// Does nothing if the slot has no memory.
  void give_back(TcpSlot&& slot) {
    if (slot.capacity() != 0) of_size(slot.capacity()).push_back(std::move(slot));
  }
  std::size_t memory_bytes() const {
    std::size_t bytes = 0;
    for (const std::vector<TcpSlot>& free : by_size_)
      for (const TcpSlot& slot : free) bytes += slot.capacity();
    return bytes;
  }

 private:
  std::vector<TcpSlot>& of_size(std::size_t bytes) { return by_size_[bytes > TcpSlot::kSmall ? 1 : 0]; }

  const Bytes most_;
  std::array<std::vector<TcpSlot>, 2> by_size_;  // small ones, large ones
};

}  // namespace tutti
