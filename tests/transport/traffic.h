// Helpers for tests that drive endpoints: blocking sends and receives of patterned data. A failure is thrown as a
// TestFailure, because the test body may run in another thread or process than the one that reports it.
#pragma once

#include <fmt/format.h>
#include <sched.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>

#include "core/clock.h"
#include "support/patience.h"
#include "transport/transport.h"

namespace tutti::testing_traffic {

using test::kSanitized;
using test::kThreadSanitized;

struct TestFailure {
  std::string text;
};

inline void require(bool condition, const std::string& text) {
  if (!condition) throw TestFailure{text};
}

inline Route unicast(Rank peer, std::uint16_t lane = 0) { return {peer, false, lane}; }
inline Route multicast_from(Rank peer, std::uint16_t lane = 0) { return {peer, true, lane}; }
inline Route multicast_to_all(std::uint16_t lane = 0) { return {kNoRank, true, lane}; }

/// Calls `attempt` until it is true; fails after a time that only a hang reaches.
template <class Attempt>
void poll_until(const std::string& what, Attempt attempt) {
  const Deadline deadline = Deadline::in(std::chrono::duration<double>(test::kPatience).count());
  for (std::uint64_t round = 1; !attempt(); ++round) {
    if (round % 64 == 0) ::sched_yield();
    if (round % 65536 == 0) require(!deadline.passed(), "hangs: " + what);
  }
}

inline std::byte pattern(std::uint64_t seed, std::size_t i) {
  return static_cast<std::byte>((seed * 131 + i * 7 + (i >> 8)) & 0xff);
}

inline void fill(std::byte* data, Bytes bytes, std::uint64_t seed) {
  for (std::size_t i = 0; i < bytes.value; ++i) data[i] = pattern(seed, i);
}

inline void verify(const std::byte* data, Bytes bytes, std::uint64_t seed) {
  for (std::size_t i = 0; i < bytes.value; ++i)
    if (data[i] != pattern(seed, i))
      throw TestFailure{fmt::format("byte {} of {} of message {} is wrong", i, bytes.value, seed)};
}

inline bool aligned(const std::byte* data, Bytes bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % (bytes.value >= kCacheLine ? kCacheLine : 16) == 0;
}

/// Sends without waiting; false: no credit.
template <class E>
bool try_send(E& endpoint, Route route, Bytes bytes, std::uint64_t seed) {
  std::byte* memory = endpoint.send_claim(route, bytes);
  if (memory == nullptr) return false;
  require(aligned(memory, bytes), fmt::format("a claim of {} bytes is not aligned", bytes.value));
  fill(memory, bytes, seed);
  endpoint.send_commit(route, bytes, mix64(seed));
  return true;
}

template <class E>
void send(E& endpoint, Route route, Bytes bytes, std::uint64_t seed) {
  poll_until(fmt::format("credit for message {} of {} bytes", seed, bytes.value),
             [&] { return try_send(endpoint, route, bytes, seed); });
}

/// Receives without waiting and without releasing; false: nothing there.
template <class E>
bool try_look(E& endpoint, Route route, Bytes bytes, std::uint64_t seed) {
  const Peek peek = endpoint.recv_peek(route, bytes, mix64(seed));
  require(peek.state != PeekState::kMismatch, fmt::format("message {} of {} bytes: mismatch", seed, bytes.value));
  if (peek.state == PeekState::kAgain) return false;
  verify(peek.data, bytes, seed);
  return true;
}

template <class E>
bool try_receive(E& endpoint, Route route, Bytes bytes, std::uint64_t seed) {
  if (!try_look(endpoint, route, bytes, seed)) return false;
  endpoint.recv_release(route, bytes);
  return true;
}

template <class E>
void receive(E& endpoint, Route route, Bytes bytes, std::uint64_t seed) {
  poll_until(fmt::format("message {} of {} bytes from rank {}", seed, bytes.value, route.peer.value),
             [&] { return try_receive(endpoint, route, bytes, seed); });
}

}  // namespace tutti::testing_traffic
