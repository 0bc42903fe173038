// The two ends of a ring in shared memory, which claim, commit, peek and release work on. It is a single-producer ring
// (Lamport 1977) in which each entry says itself whether it is full, so that there is no shared tail (FastForward:
// Giacomoni et al., PPoPP 2008) and a small message moves one cache line.
#pragma once

#include <atomic>
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
  std::size_t payload_stride = 0;
  std::uint64_t mask = 0;  // capacity - 1

  MessageHeader& header(std::uint64_t position) const { return headers[position & mask]; }
  std::byte* payload(std::uint64_t position, std::size_t bytes) const {
    if (bytes <= MessageHeader::kInline) return header(position).payload;
    return payloads + (position & mask) * payload_stride;
  }
  /// The word of the message at this position.
  static std::uint64_t word(std::uint64_t position, Fingerprint fingerprint) {
    return fingerprint << 16 | ((position + 1) & 0xffff);
  }
};

/// The writer's end: private to the endpoint, one cache line long.
struct alignas(kCacheLine) SendRing {
  RingMemory memory;
  std::uint64_t position = 0;   // of the next message
  std::uint64_t limit = 0;      // the first position without a credit when this side last looked
  SleepWord* reader = nullptr;  // the one reader's; nullptr for a multicast link

  bool has_credit() const { return position != limit; }
  std::byte* claim(std::size_t bytes) const { return memory.payload(position, bytes); }
  void commit(std::size_t bytes, Fingerprint fingerprint) {
    publish(bytes, fingerprint);
    fetch_for_writing(&memory.header(position));
    if (bytes > MessageHeader::kInline) {
      const std::byte* const next = memory.payload(position, bytes);
      for (std::size_t at = 0; at < bytes && at < kFetchAhead; at += kCacheLine) fetch_for_writing(next + at);
    }
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
    header.word.store(RingMemory::word(position, fingerprint), std::memory_order_release);  // pairs with peek()
    ++position;
  }
  static constexpr std::size_t kFetchAhead = 1024;
  /// Takes a line away from its last reader while this rank waits for its peers anyway. Otherwise the next message
  /// would stay in the store buffer until the line has crossed.
  static void fetch_for_writing(const void* line) {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
    __builtin_prefetch(line, 1);
#endif
  }
};

/// The reader's end: private to the endpoint, one cache line long.
struct alignas(kCacheLine) RecvRing {
  RingMemory memory;
  std::uint64_t position = 0;                      // of the next message
  std::atomic<std::uint64_t>* released = nullptr;  // in the reader's own segment; the writer reads it
  SleepWord* writer = nullptr;                     // the writer's, which may wait for the credit

  Peek peek(std::size_t bytes, Fingerprint fingerprint) const {
    const MessageHeader& header = memory.header(position);
    const std::uint64_t expected = RingMemory::word(position, fingerprint);
    const std::uint64_t word = header.word.load(std::memory_order_acquire);  // pairs with publish()
    if (word == expected && header.size == bytes) return {PeekState::kReady, memory.payload(position, bytes)};
    return {((word ^ expected) & 0xffff) == 0 ? PeekState::kMismatch : PeekState::kAgain, nullptr};
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
};

}  // namespace tutti
