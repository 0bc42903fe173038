// The network of the simulator: each host's link in either direction and each leaf's way up and down is a server that
// takes messages one after the other, in the order in which they come to it. A message passes from one to the next
// without being stored (its first byte leaves before its last one has come), so an idle path costs its slowest link
// once; a busy link is never idle while something waits for it, and shares its rate by turns.
#pragma once

#include <cstdint>
#include <vector>

#include "core/costs.h"
#include "schedule/event_queue.h"
#include "schedule/simulator.h"

namespace tutti {

/// A message between two hosts, on its way.
struct Transit {
  std::uint32_t link = 0;
  std::int32_t reader = 0;
  std::int32_t from_host = 0;
  std::int32_t to_host = 0;
  std::uint8_t hop = 0;
  std::size_t bytes = 0;
  std::size_t trace = 0;  ///< its number there
  Time sent = 0;
  Time tail = 0;  ///< when its last byte has left the links that it has passed
};

/// One thread.
class SimulatedNetwork {
 public:
  void reset(const Network& network, std::int32_t hosts);

  /// Whether messages between hosts take time on a wire; if not, they are there after the latency.
  bool has_wires() const { return wire_kib_ > 0; }

  /// A message sets out at `transit.sent`.
  void send(const Transit& transit, EventQueue& events);
  /// Its next link takes it; true: that was the last one, and it will be seen at `transit.tail`.
  bool hop(std::uint32_t transit, Time now, EventQueue& events);
  const Transit& transit(std::uint32_t number) const { return transits_[number]; }
  /// It has arrived and is forgotten.
  void forget(std::uint32_t number) { unused_.push_back(number); }

 private:
  enum Hop : std::uint8_t { kOut, kUp, kDown, kIn };

  std::int32_t leaf_of(std::int32_t host) const { return host / hosts_per_leaf_; }
  Time& server(const Transit& transit);

  Time latency_ = 0;
  Time wire_kib_ = 0;
  Time trunk_kib_ = 0;  ///< a leaf's way up or down
  std::int32_t hosts_per_leaf_ = 0;
  std::vector<Time> out_, in_, up_, down_;  ///< when each is idle again
  std::vector<Transit> transits_;
  std::vector<std::uint32_t> unused_;
};

}  // namespace tutti
