// The two ends of a ring in shared memory, which claim, commit, peek and release work on. It is a single-producer ring
// (Lamport 1977) in which each entry says itself whether it is full, so that there is no shared tail (FastForward:
// Giacomoni et al., PPoPP 2008) and a small message moves one cache line.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/fingerprint.h"
#include "transport/shm/shm_layout.h"
#include "transport/transport.h"

namespace tutti {

/// Where a ring's messages are, in this process's mapping of the writer's segment.
struct RingMemory {
  MessageHeader* headers = nullptr;
  std::byte* payloads = nullptr;
  std::uint32_t payload_stride = 0;
  std::uint32_t mask = 0;  // capacity - 1

  std::uint64_t capacity() const { return std::uint64_t{mask} + 1; }
  MessageHeader& header(std::uint64_t position) const { return headers[position & mask]; }
  /// The memory of a cell or slot.
  std::byte* place(std::uint64_t number) const { return payloads + (number & mask) * payload_stride; }
  /// The memory of a message that fits a cell. Cells are used in the order of positions.
  std::byte* cell(std::uint64_t position, std::size_t bytes) const {
    return bytes <= MessageHeader::kInline ? header(position).payload : place(position);
  }
  /// The word of the message at this position.
  static std::uint64_t word(std::uint64_t position, Fingerprint fingerprint) {
    return fingerprint << 16 | ((position + 1) & 0xffff);
  }
};

/// Which slots of a ring are free, as far as its writer knows, and which one its next message takes.
class FreeSlots {
 public:
  FreeSlots() = default;
  explicit FreeSlots(std::uint64_t slots) : free_(~std::uint64_t{0} >> (64 - slots)) {}

  bool has_claim() const { return claimed_ != 0; }
  /// The slot stays the same until take(). A large message gets the lowest that is free, so that as few of them fill
  /// the caches as there are messages under way; a smaller one the first from `next` on, because the lines that a
  /// reader has just read are the slowest to write. It is below `mask` even if a faulty peer's counts leave no bit.
  std::uint64_t claim(bool large, std::uint64_t next, std::uint32_t mask) {
    if (claimed_ == 0) {
      const std::uint64_t later = large ? free_ : free_ >> next << next;
      const auto slot = static_cast<std::uint32_t>(std::countr_zero(later != 0 ? later : free_));
      claimed_ = (slot & mask) + 1;
    }
    return claimed_ - 1;
  }
  /// The claimed slot has a message from now on.
  std::uint64_t take() {
    const std::uint64_t slot = claimed_ - 1;
    free_ &= ~(std::uint64_t{1} << slot);
    claimed_ = 0;
    return slot;
  }
  void give_back(std::uint64_t slot) { free_ |= std::uint64_t{1} << slot; }

 private:
  std::uint64_t free_ = 0;     // a bit each
  std::uint32_t claimed_ = 0;  // plus 1; 0 if none is
};

/// Takes a line away from its last reader while this rank waits for its peers anyway. Otherwise the next message
/// would stay in the store buffer until the line has crossed.
inline void fetch_for_writing(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

/// Takes the first lines of so many bytes away in the same way.
inline void fetch_for_writing(const std::byte* begin, std::size_t bytes) {
  constexpr std::size_t kFetchAhead = 1024;
  for (std::size_t at = 0; at < bytes && at < kFetchAhead; at += kCacheLine) fetch_for_writing(begin + at);
}

/// The writer's end: private to the endpoint, one cache line long.
struct alignas(kCacheLine) SendRing {
  RingMemory memory;
  std::uint64_t position = 0;   // of the next message
  std::uint64_t limit = 0;      // the first position without a credit when this side last looked
  SleepWord* reader = nullptr;  // the one reader's; nullptr for a multicast link
  FreeSlots slots;              // not used by cells

  bool has_credit() const { return position != limit; }
  /// How many messages had not been released when this side last looked.
  std::uint64_t under_way() const { return std::min(position + memory.capacity() - limit, memory.capacity()); }

  std::byte* claim_cell(std::size_t bytes) const { return memory.cell(position, bytes); }
  void commit_cell(std::size_t bytes, Fingerprint fingerprint) {
    publish(bytes, fingerprint);
    fetch_for_writing(&memory.header(position));
    if (bytes > MessageHeader::kInline) fetch_for_writing(memory.place(position), bytes);
  }

  /// Whether to look for released slots before a claim. A look takes the reader's line, so it pays for large messages
  /// alone, if several are under way.
  bool should_look_for_slots(std::size_t bytes) const {
    const bool pays = bytes >= kLargeBytes && under_way() >= kSlotsWithoutALook;
    return !has_credit() || (pays && !slots.has_claim());
  }
  /// Needs a credit.
  std::byte* claim_slot(std::size_t bytes) {
    return memory.place(slots.claim(bytes >= kLargeBytes, position & memory.mask, memory.mask));
  }
  void commit_slot(std::size_t bytes, Fingerprint fingerprint) {
    memory.header(position).set_slot(slots.take());
    publish(bytes, fingerprint);
    fetch_for_writing(&memory.header(position));
  }
  /// All readers have released the messages before this position.
  void set_released(std::uint64_t released, RingKind kind) {
    if (kind == RingKind::kSlots)
      for (std::uint64_t at = position - under_way(); at != position && at != released; ++at)
        if (const MessageHeader& header = memory.header(at); (header.size & MessageHeader::kReference) == 0)
          slots.give_back(header.slot() & memory.mask);
    limit = released + memory.capacity();
  }

  /// Called instead of claim and commit if the message stays where it is, at `data`.
  void commit_reference(const std::byte* data, std::size_t bytes, Fingerprint fingerprint) {
    MessageHeader& header = memory.header(position);
    const std::uint64_t address = reinterpret_cast<std::uintptr_t>(data);
    std::memcpy(header.payload, &address, sizeof address);
    publish(bytes | MessageHeader::kReference, fingerprint);
  }

 private:
  void publish(std::uint64_t size, Fingerprint fingerprint) {
    MessageHeader& header = memory.header(position);
    header.size = size;
    header.word.store(RingMemory::word(position, fingerprint), std::memory_order_release);  // pairs with RecvRing
    ++position;
  }
  static constexpr std::uint64_t kSlotsWithoutALook = 2;
  static constexpr std::size_t kLargeBytes = 64 * 1024;
};
static_assert(sizeof(SendRing) == kCacheLine);

/// The reader's end: private to the endpoint, one cache line long.
struct alignas(kCacheLine) RecvRing {
  RingMemory memory;
  std::uint64_t position = 0;                      // of the next message
  std::atomic<std::uint64_t>* released = nullptr;  // in the reader's own segment; the writer reads it
  SleepWord* writer = nullptr;                     // the writer's, which may wait for the credit

  Peek peek_cell(std::size_t bytes, Fingerprint fingerprint) const {
    const PeekState state = look(bytes, fingerprint);
    return {state, state == PeekState::kReady ? memory.cell(position, bytes) : nullptr};
  }
  Peek peek_slot(std::size_t bytes, Fingerprint fingerprint) const {
    const PeekState state = look(bytes, fingerprint);
    if (state != PeekState::kReady) return {state, nullptr};
    const std::uint64_t slot = memory.header(position).slot();
    // Smaller messages mostly go in turn. So the processor guesses this branch, and fetches the data before the header
    // line has arrived.
    if (slot == (position & memory.mask)) [[likely]]
      return {state, memory.place(position)};
    return {state, memory.place(slot)};
  }
  /// The address of the next message, or 0 if it was not sent by reference.
  std::uint64_t reference(std::size_t bytes, Fingerprint fingerprint) const {
    const MessageHeader& header = memory.header(position);
    const std::uint64_t word = header.word.load(std::memory_order_acquire);  // pairs with publish()
    if (word != RingMemory::word(position, fingerprint) || header.size != (bytes | MessageHeader::kReference)) return 0;
    std::uint64_t address = 0;
    std::memcpy(&address, header.payload, sizeof address);
    return address;
  }
  void release() {
    ++position;
    released->store(position, std::memory_order_release);  // pairs with ShmEndpoint::find_credit()
  }

 private:
  PeekState look(std::size_t bytes, Fingerprint fingerprint) const {
    const MessageHeader& header = memory.header(position);
    const std::uint64_t expected = RingMemory::word(position, fingerprint);
    const std::uint64_t word = header.word.load(std::memory_order_acquire);  // pairs with publish()
    if (word == expected && header.size == bytes) return PeekState::kReady;
    return ((word ^ expected) & 0xffff) == 0 ? PeekState::kMismatch : PeekState::kAgain;
  }
};

}  // namespace tutti
